/**
 * The providers that one's own account is linked to, and taking a link away. Linking happens by signing in there (provider.ts); what is
 * unlinked here is linked again by the next sign-in there with the account's address, because the address is the proof.
 */
import * as v from "valibot";
import { batchOrFail, guard } from "../../db/client";
import { deleteIdentities, identitiesOf, identityExists } from "../../db/identities";
import { logAccount } from "../../db/sessions";
import { ApiError } from "../../errors";
import { endpoint } from "../endpoint";
import { acknowledgement, OK, rfc3339, time } from "../schemas";
import { accountOrigin, lastWayIn, leavesAWayIn } from "../sign-in";

const OWN = "It is about the account of whoever is signed in.";
const TAG = "Account";

export const listProviders = endpoint({
	method: "GET",
	path: "/account/providers",
	tag: TAG,
	summary: "List the providers that your account is linked to",
	description:
		"`offered` is false of one that this deployment no longer signs in with. An OpenID provider is named with its issuer, as `oidc https://…`.",
	access: { ownSession: OWN },
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
		"Your account is not linked to this provider; look at GET /account/providers.",
	);

export const unlinkProvider = endpoint({
	method: "DELETE",
	path: "/account/providers/:provider",
	tag: TAG,
	summary: "Unlink your account from a provider",
	description:
		"Refused where nothing else would be left to sign in with. Sessions that were signed in by it go on; DELETE /account/sessions ends them. Whoever signs in there again with your address, which the provider has verified, is linked again.",
	access: { ownSession: OWN },
	recentSignIn: true,
	response: acknowledgement,
	errors: ["sign_in_method_not_found", "last_sign_in_method"],
	example: { response: OK },
	async handle(context) {
		const { db, principal, input, nowMs } = context;
		const { userId } = principal;
		const { provider } = input.params;
		await batchOrFail(
			db,
			[
				guard("provider_linked", identityExists(userId, provider)),
				...leavesAWayIn(context, userId, { provider }),
				deleteIdentities(userId, provider),
				logAccount({ userId, action: "provider.unlink", details: { provider } }, accountOrigin(context), nowMs),
			],
			{ provider_linked: notLinked, way_in_left: lastWayIn },
		);
		return OK;
	},
});
