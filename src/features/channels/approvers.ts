/**
 * GET /channel/approvers: who could approve what the caller proposes for a channel, by the rule of
 * the approval itself, and who of them gets a mail about it.
 */
import * as v from "valibot";
import { holds } from "../../authz/decide";
import { AUDIT_READERS } from "../../authz/member-roles";
import { bindingsFrom } from "../../authz/principal";
import { mayApprove } from "../../authz/promoters";
import { namedKeys, type PromoterRow, promotersOf } from "../../db/approvers";
import { channelByName } from "../../db/channels";
import { endpoint } from "../../http/endpoint";
import { channelName, publicAppId } from "../../http/schemas";
import { channelNotFound, channelScope } from "../../http/scope";

/** More people are not read; a channel with so many approvers lacks none. */
const MOST_PEOPLE = 20;

export const listApprovers = endpoint({
	method: "GET",
	path: "/channel/approvers",
	tag: "Channels",
	summary: "List the people who could approve what you propose for a channel",
	description: [
		"Those whom `promoters` name and whose role releases, except your account.",
		"`complete`: there are no more; `keys`: named API keys of other accounts, which can approve too;",
		"`mailed`: the person gets a mail about proposals.",
		"Without org.read_members, `people` is empty.",
	],
	access: { permission: "channel.read", scope: channelScope("query.app_id", { name: "query.channel" }) },
	query: v.object({ app_id: publicAppId, channel: channelName }),
	response: v.strictObject({
		requires_approval: v.boolean(),
		count: v.number(),
		complete: v.boolean(),
		keys: v.number(),
		people: v.array(
			v.strictObject({ id: v.string(), email: v.string(), has_passkey: v.boolean(), mailed: v.boolean() }),
		),
	}),
	errors: ["channel_not_found"],
	example: {
		query: { app_id: "com.example.app", channel: "production" },
		response: {
			requires_approval: true,
			count: 1,
			complete: true,
			keys: 0,
			people: [
				{
					id: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
					email: "ada@example.com",
					has_passkey: true,
					mailed: true,
				},
			],
		},
	},
	load: ({ query: { app_id, channel } }) => ({ channel: channelByName(app_id, channel) }),
	async handle({ db, deps, loaded, principal, scope, nowMs }) {
		const [channel] = loaded.channel;
		if (channel === undefined) throw channelNotFound();
		const { orgId, appId, channelId } = scope;
		const { promoters, requires_approval } = channel;
		if (requires_approval === 0) return { requires_approval: false, count: 0, complete: true, keys: 0, people: [] };
		const of = { orgId, appId, channelId, promoters, mailed: AUDIT_READERS, except: principal.userId };
		const [found, keys] = await db.batch([
			promotersOf(of, nowMs, MOST_PEOPLE + 1),
			namedKeys(orgId, promoters, principal.userId),
		]);
		const rule = { promoters, requires_approval, proposed_by: principal.userId };
		const approvers = found.rows.filter((row) => mayApprove(personOf(row), rule, { orgId, appId, channelId }));
		// They may never have acted on the app, so its activity does not show them.
		const showsNames = holds(principal, "org.read_members", { orgId });
		return {
			requires_approval: true,
			count: Math.min(approvers.length, MOST_PEOPLE),
			complete: found.rows.length <= MOST_PEOPLE,
			keys: keys.rows[0]?.keys ?? 0,
			people: showsNames
				? approvers.slice(0, MOST_PEOPLE).map(({ id, email, has_passkey, is_mailed }) => ({
						id,
						email,
						has_passkey: has_passkey === 1,
						mailed: deps.config.mail !== undefined && is_mailed === 1,
					}))
				: [],
		};
	},
});

/** The person as the caller of an approval. */
const personOf = ({ id, bindings }: PromoterRow) => ({
	kind: "session" as const,
	keyId: null,
	userId: id,
	bindings: bindingsFrom(bindings, () => undefined),
});
