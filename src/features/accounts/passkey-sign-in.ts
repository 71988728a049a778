/**
 * Signs in with a passkey. A challenge is valid once and for five minutes; the batch that creates
 * the session deletes it.
 */
import type { AuthenticationResponseJSON } from "@simplewebauthn/server";
import * as v from "valibot";
import { hashKey, mintAttemptToken } from "../../authz/secrets";
import { PASSKEY_METHOD } from "../../authz/session";
import { guard } from "../../db/client";
import { passkeyByCredential, passkeyIs, updatePasskey } from "../../db/passkeys";
import { attemptExists, beginAttempt, challengeOf, deleteAttempt } from "../../db/sign-in";
import { causeText } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import { countSignIn } from "../../http/limits/requests";
import { newSession, requireOwnPage, signedIn, signInFailed } from "./new-session";
import {
	answerOfOptions,
	bytes,
	credentialId,
	EXAMPLE_CLIENT_DATA,
	EXAMPLE_ID,
	EXAMPLE_OPTIONS,
	tokenField,
} from "./passkeys";
import { EXAMPLE_ATTEMPT, SIGN_IN_TAG, SIGNED_IN_EXAMPLE, signedInSchema, WHY_PUBLIC_SIGN_IN } from "./sign-in";
import { authenticationOptions, CHALLENGE_LIFETIME_MS, checkAuthentication } from "./webauthn";

const assertion = v.looseObject({
	id: credentialId,
	rawId: credentialId,
	type: v.literal("public-key"),
	response: v.looseObject({ clientDataJSON: bytes, authenticatorData: bytes, signature: bytes }),
	clientExtensionResults: v.optional(v.looseObject({}), {}),
});
const EXAMPLE_ASSERTION = {
	...EXAMPLE_ID,
	response: { clientDataJSON: EXAMPLE_CLIENT_DATA, authenticatorData: "SZYN5Y", signature: "MEUCIQ" },
};

export const passkeySignInOptions = endpoint({
	method: "POST",
	path: "/sign-in/passkey/options",
	tag: SIGN_IN_TAG,
	summary: "Get the options to sign in with a passkey",
	description: "Pass `options` to `navigator.credentials.get`, and send `attempt` with its result.",
	access: { public: WHY_PUBLIC_SIGN_IN },
	body: v.object({}),
	response: answerOfOptions,
	errors: ["cross_site_request", "https_required"],
	example: { body: {}, response: { attempt: EXAMPLE_ATTEMPT, options: EXAMPLE_OPTIONS } },
	async handle(context) {
		const { db, deps, origin, nowMs, actor } = context;
		requireOwnPage(context);
		await countSignIn(deps, actor.ipAddress);
		const options = await authenticationOptions(origin, deps.randomBytes);
		const attempt = mintAttemptToken(deps.randomBytes);
		await db.batch([
			beginAttempt(
				{
					tokenHash: attempt.hash,
					kind: "passkey",
					userId: null,
					email: null,
					secret: options.challenge,
					expiresAtMs: nowMs + CHALLENGE_LIFETIME_MS,
				},
				nowMs,
			),
		]);
		return { attempt: attempt.text, options: { ...options } };
	},
});

export const signInWithPasskey = endpoint({
	method: "POST",
	path: "/sign-in/passkey",
	tag: SIGN_IN_TAG,
	summary: "Sign in with a passkey",
	description: "Sets the session cookie.",
	access: { public: WHY_PUBLIC_SIGN_IN },
	body: v.object({ attempt: tokenField, credential: assertion }),
	response: signedInSchema,
	errors: ["cross_site_request", "https_required", "sign_in_failed"],
	example: { body: { attempt: EXAMPLE_ATTEMPT, credential: EXAMPLE_ASSERTION }, response: SIGNED_IN_EXAMPLE },
	load: ({ body }, nowMs) => ({
		challenge: challengeOf(hashKey(body.attempt), "passkey", nowMs),
		passkey: passkeyByCredential(body.credential.id),
	}),
	async handle(context) {
		const { db, deps, input, loaded, origin, nowMs } = context;
		requireOwnPage(context);
		const [challenge] = loaded.challenge;
		const [passkey] = loaded.passkey;
		if (challenge === undefined || passkey === undefined) throw signInFailed();
		const credential = input.body.credential as unknown as AuthenticationResponseJSON;
		let counter: number;
		try {
			counter = await checkAuthentication(origin, challenge.secret, credential, passkey);
		} catch (error) {
			deps.log("warn", "passkey_refused", { passkey: passkey.id, cause: causeText(error) });
			throw signInFailed({ userId: passkey.user_id });
		}
		const hash = hashKey(input.body.attempt);
		const { id, user_id, email, name } = passkey;
		const session = newSession(context, user_id, PASSKEY_METHOD, { passkey: name });
		await db.batch([
			guard(attemptExists(hash), () => signInFailed()),
			guard(passkeyIs(passkey), () => signInFailed()),
			deleteAttempt(hash),
			updatePasskey(user_id, id, { counter, last_used_at_ms: nowMs }),
			...session.statements,
		]);
		return new Reply(200, signedIn({ id: user_id, email }), { "Set-Cookie": session.cookie });
	},
});
