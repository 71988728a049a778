/**
 * Lists and unlinks the providers of the caller's account. Signing in at a provider links it
 * (providers.ts), and so does the next sign-in after an unlink, because the verified address is the
 * proof.
 */
import * as v from "valibot";
import { guard } from "../../db/client";
import { deleteIdentities, identitiesOf, identityExists } from "../../db/identities";
import { logAccount } from "../../db/sessions";
import { ApiError } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { acknowledgement, OK, rfc3339, time } from "../../http/schemas";
import { ACCOUNT_TAG, accountOrigin, leavesAWayIn, OWN_ACCOUNT } from "./new-session";

export const listProviders = endpoint({
	method: "GET",
	path: "/account/providers",
	tag: ACCOUNT_TAG,
	summary: "List the providers that your account is linked to",
	description:
		"`offered` is false for a provider that this deployment no longer offers. An OpenID provider is named by its issuer, as `oidc https://…`.",
	access: { ownSession: OWN_ACCOUNT },
	response: v.array(v.strictObject({ provider: v.string(), name: v.string(), offered: v.boolean(), linked_at: time })),
	errors: [],
	example: {
		response: [{ provider: "github", name: "GitHub", offered: true, linked_at: "2026-11-21T08:00:00.000Z" }],
	},
	async handle({ db, deps, principal }) {
		const [identities] = await db.batch([identitiesOf(principal.userId)]);
		return identities.rows.map(({ provider, linked_at_ms }) => {
			const offered = deps.config.providers.find(({ identity }) => identity === provider);
			return {
				provider,
				name: offered?.name ?? provider,
				offered: offered !== undefined,
				linked_at: rfc3339(linked_at_ms),
			};
		});
	},
});

const notLinked = () =>
	new ApiError(
		"sign_in_method_not_found",
		"Your account is not linked to this provider. List its providers with GET /account/providers.",
	);

export const unlinkProvider = endpoint({
	method: "DELETE",
	path: "/account/providers/:provider",
	tag: ACCOUNT_TAG,
	summary: "Unlink your account from a provider",
	description: [
		"Refused if it is your last way to sign in.",
		"Sessions created with the provider continue; DELETE /account/sessions ends them.",
		"The next sign-in at the provider with your verified address links it again.",
	],
	access: { ownSession: OWN_ACCOUNT },
	recentSignIn: true,
	response: acknowledgement,
	errors: ["sign_in_method_not_found", "last_sign_in_method"],
	example: { response: OK },
	async handle(context) {
		const { db, principal, input, nowMs } = context;
		const { userId } = principal;
		const { provider } = input.params;
		await db.batch([
			guard(identityExists(userId, provider), notLinked),
			...leavesAWayIn(context, userId, { provider }),
			deleteIdentities(userId, provider),
			logAccount({ userId, action: "provider.unlink", details: { provider } }, accountOrigin(context), nowMs),
		]);
		return OK;
	},
});
