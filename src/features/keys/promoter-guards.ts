/**
 * A role or a key that a protected channel names as promoter gives more than its permissions there:
 * it passes the protection. So giving such a role to a key, a member or a group takes the right to
 * change the promoters themselves, and so does the secret of such a key.
 */
import { sql } from "kysely";
import { holds } from "../../authz/decide";
import { lacksPermission, type Principal } from "../../authz/principal";
import type { ApiKeyRow, BindingRecord } from "../../db/api-keys";
import { guard, type Statement } from "../../db/client";
import { appOf, channelOf, type NewBindingInput } from "./record";
import { placeOf } from "./rules";

/** A new binding of a key, as `promoterGuards` reads it. */
export const givenBy = (binding: NewBindingInput): Given => ({
	role: binding.role_name,
	appId: appOf(binding),
	channelId: channelOf(binding),
});

interface Given {
	readonly role: string;
	readonly appId: string | null | undefined;
	readonly channelId: number | null | undefined;
}

/**
 * Guards of the batch that gives the roles; none for callers who may change promoters at these
 * places.
 */
export function promoterGuards(principal: Principal, orgId: string, given: readonly Given[]): Statement[] {
	const doubtful = given
		.filter(({ appId }) => !holds(principal, "app.update_user_roles", placeOf(orgId, appId, undefined)))
		.map(({ role, appId, channelId }) => ({ role, app: appId ?? null, channel: channelId ?? null }));
	if (doubtful.length === 0) return [];
	const isNamed = sql`SELECT 1 FROM json_each(${JSON.stringify(doubtful)}) AS given
		INNER JOIN channels ch ON ch.protected = 1 AND ch.app_id = coalesce(given.value ->> 'app', ch.app_id)
			AND ch.id = coalesce(given.value ->> 'channel', ch.id)
		INNER JOIN apps a ON a.id = ch.app_id
		WHERE (a.owner_org = ${orgId} OR a.id IN (SELECT app_id FROM deleted_apps WHERE org_id = ${orgId}))
			AND given.value ->> 'role' IN (SELECT value FROM json_each(ch.promoters))`;
	const denied = () => lacksPermission(principal, "app.update_user_roles", "app");
	return [guard(sql<boolean>`NOT EXISTS (${isNamed})`, denied)];
}

/**
 * Guards of a batch that shows or replaces the secret of a key, or lets it live longer or be used
 * from more addresses. None for the key itself, and for a person whose own key it is.
 */
export function secretGuards(principal: Principal, key: Pick<ApiKeyRow, "id" | "user_id" | "bindings">): Statement[] {
	const isOwn = principal.kind === "session" ? key.user_id === principal.userId : key.id === principal.keyId;
	if (isOwn) return [];
	const byOrganization = Map.groupBy(JSON.parse(key.bindings) as BindingRecord[], ({ org_id }) => org_id);
	return [...byOrganization].flatMap(([orgId, bindings]) =>
		promoterGuards(principal, orgId, [
			{ role: key.id, appId: null, channelId: null },
			...bindings.map(({ role_name, app_id, channel_id }) => ({
				role: role_name,
				appId: app_id,
				channelId: channel_id,
			})),
		]),
	);
}
