/**
 * Lists the members of an organization and its pending invitations.
 */
import * as v from "valibot";
import { strongestMemberRole, WEAKEST_MEMBER_ROLE } from "../../authz/member-roles";
import { type MemberRow, membersOf } from "../../db/members";
import { endpoint } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { itemsPerPage, MOST_ITEMS_PER_PAGE, optional, PAGE_SIZE, pageNumberIfAny, uuid } from "../../http/schemas";
import { orgScope } from "../../http/scope";
import { EXAMPLE_ORG_ID, EXAMPLE_UID, namesOf } from "./member-rules";

/** Members per response without paging; the stock CLI reads one list. */
const MOST_MEMBERS = MOST_ITEMS_PER_PAGE;

const memberSchema = v.strictObject({
	uid: v.string(),
	email: v.string(),
	image_url: v.string(),
	role: v.string(),
	is_tmp: v.boolean(),
	global_permissions: v.array(v.string()),
});

function memberAnswer(row: MemberRow): v.InferOutput<typeof memberSchema> {
	const roles: string[] = JSON.parse(row.roles);
	return {
		uid: row.id,
		email: row.email,
		image_url: "",
		role: strongestMemberRole(roles) ?? roles[0] ?? "",
		is_tmp: row.is_invitation === 1,
		global_permissions: namesOf(row.global_permissions),
	};
}

export const listMembers = endpoint({
	method: "GET",
	path: "/organization/members",
	tag: "Members",
	summary: "List the members of an organization and its pending invitations, by e-mail address",
	description: [
		"`is_tmp` is true for a pending invitation; its `uid` is the id of the invitation.",
		"A member with several roles is shown with the strongest one.",
		"The response contains all members, up to 1,000, or only the one with `uid`; `page` and `limit`",
		'(default 50, at most 1,000) select a page, and `Link: rel="next"` announces another one.',
	],
	access: { permission: "org.read_members", scope: orgScope("query.orgId") },
	query: v.object({
		orgId: uuid,
		uid: optional(uuid),
		page: optional(pageNumberIfAny),
		limit: itemsPerPage,
	}),
	response: v.array(memberSchema),
	errors: [],
	example: {
		query: { orgId: EXAMPLE_ORG_ID },
		response: [
			{
				uid: EXAMPLE_UID,
				email: "ada@example.com",
				image_url: "",
				role: WEAKEST_MEMBER_ROLE,
				is_tmp: false,
				global_permissions: [],
			},
		],
	},
	async handle({ db, scope, input, request, origin, nowMs }) {
		const { uid, page, limit } = input.query;
		const size = limit ?? (page === undefined ? MOST_MEMBERS : PAGE_SIZE);
		const bounds = pageBounds(page ?? 0, size);
		const [members] = await db.batch([membersOf(scope.orgId, uid, nowMs, bounds.limit, bounds.offset)]);
		return pageReply({ request, origin }, page ?? 0, members.rows, memberAnswer, size);
	},
});
