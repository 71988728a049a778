/**
 * Organizations and members as Capgo's scripts name them. Its two verbs for an organization are
 * those of this server the other way round, so `orgId` decides: with it the organization is
 * changed, without it one is created.
 */
import * as v from "valibot";
import { MEMBER_ROLES, WEAKEST_MEMBER_ROLE } from "../../authz/member-roles";
import { updateOrganization } from "../../features/organizations/change";
import { createOrganization } from "../../features/organizations/creation";
import { INVITE_TYPES, inviteMember } from "../../features/organizations/invite";
import { updateMember } from "../../features/organizations/member-change";
import { listOrganizations } from "../../features/organizations/read";
import type { AnyEndpoint } from "../../http/endpoint";
import { entriesOf } from "../../http/pipeline/input";
import { customRoleName, optional, textUpTo, uuid } from "../../http/schemas";
import type { RawInput } from "../../http/scope";
import { bodyOf, type Fields, recordsWith, renamed, withForm, withRecordFields } from "./form";

/** Fields of no payment service. */
const ACCOUNTING = { customer_id: v.null() };
const withAccounting = () => ({ customer_id: null });

export const listOrganizationsForm = withForm(listOrganizations, {
	response: (own) => withRecordFields(own, ACCOUNTING),
	answer: recordsWith(withAccounting),
});

/** An address as people type it. */
function webAddress(value: unknown): unknown {
	if (typeof value !== "string" || value === "" || /^[a-z][a-z\d+.-]*:/i.test(value)) return value;
	return URL.canParse(`https://${value}`) ? `https://${value}` : value;
}

const withWebAddress = (fields: Fields): Fields =>
	fields.website === undefined ? fields : { ...fields, website: webAddress(fields.website) };

/** Answers of a questionnaire that this server does not ask. */
const SURVEY = { estimatedMau: v.optional(v.unknown()), intent: v.optional(v.unknown()) };

const hasOrganization = (raw: RawInput) => (bodyOf(raw).orgId ?? null) !== null;
const surveyOf = (raw: RawInput) => Object.keys(SURVEY).filter((name) => bodyOf(raw)[name] !== undefined);

const creation = withForm(createOrganization, {
	body: {
		entries: { email: optional(textUpTo(254)), website: optional(textUpTo(2048)), ...SURVEY },
		translate: (fields) => withWebAddress(renamed({ email: "management_email" })(fields)),
	},
	forms: { withoutEffect: surveyOf },
});

const change = withForm(updateOrganization, {
	body: { entries: { website: optional(textUpTo(2048)) }, translate: withWebAddress },
	response(own) {
		const { data, ...entries } = (own as unknown as { entries: v.ObjectEntries }).entries;
		return v.strictObject({ ...entries, data: withRecordFields(data as v.GenericSchema, ACCOUNTING) });
	},
	answer: (own) => ({ ...(own as Fields), data: { ...(own as { data: Fields }).data, ...withAccounting() } }),
});

/**
 * Both verbs declare the fields, answers and errors of a creation and of a change; one of the two
 * handles each request.
 */
const either = {
	body: v.object({ ...entriesOf(creation.body), ...entriesOf(change.body), orgId: optional(uuid) }),
	response: v.union([change.response as v.GenericSchema, creation.response as v.GenericSchema]),
	errors: [...new Set([...creation.errors, ...change.errors, "organization_not_found" as const])],
};
const eitherForm = { forms: { instead: (raw: RawInput) => (hasOrganization(raw) ? change : creation) } };

export const createOrganizationForm: AnyEndpoint = {
	...withForm(creation, {
		...eitherForm,
		description:
			"With `orgId` the request changes that organization, as POST /organization does, with the rights and the answer of a change.",
	}),
	...either,
	status: [201, 200],
};

export const updateOrganizationForm: AnyEndpoint = {
	...withForm(change, {
		...eitherForm,
		description:
			"Without `orgId` the request creates an organization, as PUT /organization does, with the rights and the answer of a creation.",
	}),
	...either,
	status: [200, 201],
};

const ROLE_NAMES = [...INVITE_TYPES.keys()];
const roleNamed = optional(
	v.union(
		[v.picklist(ROLE_NAMES), customRoleName],
		`must be one of ${MEMBER_ROLES.join(", ")}, or the name of a custom role`,
	),
);
const ownRole = (value: unknown) => (typeof value === "string" ? (INVITE_TYPES.get(value) ?? value) : value);

const invitation = {
	entries: { role: roleNamed },
	translate: (fields: Fields) => (fields.role === undefined ? fields : { ...fields, role: ownRole(fields.role) }),
};

export const inviteMemberForm = withForm(inviteMember, {
	body: invitation,
	response: (own) =>
		withRecordFields(own, {
			data: v.strictObject({ uid: v.string(), email: v.string(), role: v.string(), image_url: v.literal("") }),
		}),
	answer: recordsWith(({ uid, invitation_id, email, role }) => ({
		data: { uid: uid ?? invitation_id, email, role, image_url: "" },
	})),
	description: `\`role\` takes the shorter names of other services as well: \`read\`, \`upload\` and \`write\` are \`${WEAKEST_MEMBER_ROLE}\`.`,
});

export const updateMemberForm = withForm(updateMember, { body: invitation });
