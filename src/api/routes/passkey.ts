/**
 * Passkeys: made, listed, renamed and removed by whoever is signed in, and signed in with by whoever has one. A challenge is good once
 * and for five minutes; one that is used is deleted in the batch of what it proved.
 */
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from "@simplewebauthn/server";
import * as v from "valibot";
import { hashKey, mintAttemptToken } from "../../authz/keys";
import { PASSKEY_METHOD } from "../../authz/session";
import { batchOrFail, guard } from "../../db/client";
import {
	deletePasskey as deletePasskeyStatement,
	insertPasskey,
	type PasskeyRow,
	passkeyByCredential,
	passkeyExists,
	passkeyIs,
	passkeysOf,
	updatePasskey,
} from "../../db/passkeys";
import { logAccount } from "../../db/sessions";
import { attemptExists, beginAttempt, challengeOf, deleteAttempt } from "../../db/sign-in";
import { ApiError, causeText } from "../../errors";
import { endpoint, Reply } from "../endpoint";
import { countSignIn } from "../request-limits";
import { acknowledgement, label, nullableRfc3339, nullableTime, OK, rfc3339, text, time, uuid } from "../schemas";
import { accountOrigin, lastWayIn, leavesAWayIn, newSession, requireOwnPage, signedIn, signInFailed } from "../sign-in";
import {
	authenticationOptions,
	CHALLENGE_LIFETIME_MS,
	checkAuthentication,
	checkRegistration,
	type NewPasskey,
	registrationOptions,
} from "../webauthn";
import { EXAMPLE_ATTEMPT, SIGN_IN_TAG, SIGNED_IN_EXAMPLE, signedInSchema, WHY_PUBLIC_SIGN_IN } from "./sign-in";

const OWN = "It is about the passkeys of whoever is signed in.";
const TAG = "Account";

/** What the browser's API takes and gives, as JSON (https://www.w3.org/TR/webauthn-3/); the library reads it. */
const optionsSchema = v.looseObject({ challenge: v.string() });
const credentialId = v.pipe(text(2048), v.regex(/^[\w-]+$/, "must be base64url"));
const bytes = v.pipe(text(65_536), v.regex(/^[\w-]+=*$/, "must be base64url"));
const assertion = v.looseObject({
	id: credentialId,
	rawId: credentialId,
	type: v.literal("public-key"),
	response: v.looseObject({ clientDataJSON: bytes, authenticatorData: bytes, signature: bytes }),
	clientExtensionResults: v.optional(v.looseObject({}), {}),
});
const attestation = v.looseObject({
	id: credentialId,
	rawId: credentialId,
	type: v.literal("public-key"),
	response: v.looseObject({
		clientDataJSON: bytes,
		attestationObject: bytes,
		transports: v.optional(v.pipe(v.array(text(32)), v.maxLength(8))),
	}),
	clientExtensionResults: v.optional(v.looseObject({}), {}),
});
const EXAMPLE_ID = { id: "x3Jm0aQZ", rawId: "x3Jm0aQZ", type: "public-key" } as const;
const EXAMPLE_CLIENT_DATA = "eyJ0eXBlIjoid2ViYXV0aG4uZ2V0In0";
const EXAMPLE_ASSERTION = {
	...EXAMPLE_ID,
	response: { clientDataJSON: EXAMPLE_CLIENT_DATA, authenticatorData: "SZYN5Y", signature: "MEUCIQ" },
};
const EXAMPLE_ATTESTATION = {
	...EXAMPLE_ID,
	response: { clientDataJSON: EXAMPLE_CLIENT_DATA, attestationObject: "o2NmbXRkbm9uZQ", transports: ["internal"] },
};
const EXAMPLE_OPTIONS = { challenge: "9JgR…", rpId: "updates.example.com", userVerification: "required" };

const tokenField = text(128);
const answerOfOptions = v.strictObject({ attempt: v.string(), options: optionsSchema });

export const passkeySignInOptions = endpoint({
	method: "POST",
	path: "/sign-in/passkey/options",
	tag: SIGN_IN_TAG,
	summary: "Begin to sign in with a passkey",
	description: "`options` are for `navigator.credentials.get`; `attempt` goes with its result.",
	access: { public: WHY_PUBLIC_SIGN_IN },
	consistency: "first-primary",
	body: v.object({}),
	response: answerOfOptions,
	errors: ["cross_site_request", "https_required", "too_many_requests"],
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
	description: "Sets the session's cookie.",
	access: { public: WHY_PUBLIC_SIGN_IN },
	consistency: "first-primary",
	body: v.object({ attempt: tokenField, credential: assertion }),
	response: signedInSchema,
	errors: ["cross_site_request", "https_required", "sign_in_failed", "too_many_requests"],
	example: { body: { attempt: EXAMPLE_ATTEMPT, credential: EXAMPLE_ASSERTION }, response: SIGNED_IN_EXAMPLE },
	load: ({ body }, nowMs) =>
		[challengeOf(hashKey(body.attempt), "passkey", nowMs), passkeyByCredential(body.credential.id)] as const,
	async handle(context) {
		const { db, deps, input, loaded, origin, nowMs } = context;
		requireOwnPage(context);
		const [challenge] = loaded[0].rows;
		const [passkey] = loaded[1].rows;
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
		await batchOrFail(
			db,
			[
				guard("unused", attemptExists(hash)),
				guard("passkey_as_read", passkeyIs(passkey)),
				deleteAttempt(hash),
				updatePasskey(user_id, id, { counter, last_used_at_ms: nowMs }),
				...session.statements,
			],
			{ unused: () => signInFailed(), passkey_as_read: () => signInFailed() },
		);
		return new Reply(200, signedIn({ id: user_id, email }), { "Set-Cookie": session.cookie });
	},
});

const passkeySchema = v.strictObject({
	id: v.string(),
	name: v.string(),
	created_at: time,
	last_used_at: nullableTime,
});
const EXAMPLE_PASSKEY = {
	id: "5d0c7f3a-7c2e-4a2b-9f60-2f4f1c9f7a31",
	name: "Ada's phone",
	created_at: "2026-11-21T08:00:00.000Z",
	last_used_at: null,
};

const passkeyAnswer = ({
	id,
	name,
	created_at_ms,
	last_used_at_ms,
}: Omit<PasskeyRow, keyof NewPasskey | "user_id">) => ({
	id,
	name,
	created_at: rfc3339(created_at_ms),
	last_used_at: nullableRfc3339(last_used_at_ms),
});

const passkeyNotFound = () =>
	new ApiError("passkey_not_found", "Your account has no such passkey; look at GET /account/passkeys.");

export const listPasskeys = endpoint({
	method: "GET",
	path: "/account/passkeys",
	tag: TAG,
	summary: "List your passkeys, oldest first",
	access: { ownSession: OWN },
	response: v.array(passkeySchema),
	errors: [],
	example: { response: [EXAMPLE_PASSKEY] },
	async handle({ db, principal }) {
		const [passkeys] = await db.batch([passkeysOf(principal.userId)]);
		return passkeys.rows.map(passkeyAnswer);
	},
});

export const passkeyOptions = endpoint({
	method: "POST",
	path: "/account/passkey-options",
	tag: TAG,
	summary: "Begin to make a passkey",
	description: "`options` are for `navigator.credentials.create`; `attempt` goes with its result.",
	access: { ownSession: OWN },
	recentSignIn: true,
	body: v.object({}),
	response: answerOfOptions,
	errors: ["https_required"],
	example: { body: {}, response: { attempt: EXAMPLE_ATTEMPT, options: EXAMPLE_OPTIONS } },
	async handle({ db, deps, principal, origin, nowMs, actor }) {
		const { userId } = principal;
		const attempt = mintAttemptToken(deps.randomBytes);
		// Drawn here, so that the list of passkeys to leave out comes in the same round trip.
		const challenge = deps.randomBytes(32);
		const options = (existing: readonly PasskeyRow[]) =>
			registrationOptions(origin, { id: userId, email: actor.name }, existing, () => challenge);
		const { challenge: secret } = await options([]);
		const [existing] = await db.batch([
			passkeysOf(userId),
			beginAttempt(
				{
					tokenHash: attempt.hash,
					kind: "passkey_registration",
					userId,
					email: null,
					secret,
					expiresAtMs: nowMs + CHALLENGE_LIFETIME_MS,
				},
				nowMs,
			),
		]);
		return { attempt: attempt.text, options: { ...(await options(existing.rows)) } };
	},
});

export const createPasskey = endpoint({
	method: "POST",
	path: "/account/passkeys",
	tag: TAG,
	summary: "Add a passkey to your account",
	access: { ownSession: OWN },
	recentSignIn: true,
	body: v.object({ attempt: tokenField, name: label(64), credential: attestation }),
	status: [201],
	response: passkeySchema,
	errors: ["passkey_not_registered", "passkey_already_registered"],
	example: {
		body: { attempt: EXAMPLE_ATTEMPT, name: EXAMPLE_PASSKEY.name, credential: EXAMPLE_ATTESTATION },
		response: EXAMPLE_PASSKEY,
	},
	load: ({ body }, nowMs) => [challengeOf(hashKey(body.attempt), "passkey_registration", nowMs)] as const,
	async handle(context) {
		const { db, deps, principal, input, loaded, origin, nowMs } = context;
		const { userId } = principal;
		const { attempt, name, credential } = input.body;
		const [challenge] = loaded[0].rows;
		if (challenge === undefined || challenge.user_id !== userId) throw notRegistered();
		let made: NewPasskey;
		try {
			const response = credential as unknown as RegistrationResponseJSON;
			made = await checkRegistration(origin, challenge.secret, response);
		} catch (error) {
			deps.log("warn", "passkey_refused", { account: userId, cause: causeText(error) });
			throw notRegistered();
		}
		const hash = hashKey(attempt);
		const row = { id: deps.newId(), name, created_at_ms: nowMs, last_used_at_ms: null };
		await batchOrFail(
			db,
			[
				guard("unused", attemptExists(hash)),
				deleteAttempt(hash),
				insertPasskey({ ...made, ...row, user_id: userId }),
				logAccount({ userId, action: "passkey.create", details: { name } }, accountOrigin(context), nowMs),
			],
			{
				unused: notRegistered,
				"passkeys.credential_id": () =>
					new ApiError("passkey_already_registered", "This passkey is registered already; use another authenticator."),
			},
		);
		return new Reply(201, passkeyAnswer(row));
	},
});

const notRegistered = () =>
	new ApiError(
		"passkey_not_registered",
		"The passkey could not be checked, or took longer than five minutes. Start again.",
	);

export const renamePasskey = endpoint({
	method: "PUT",
	path: "/account/passkeys/:id",
	tag: TAG,
	summary: "Rename a passkey",
	access: { ownSession: OWN },
	body: v.object({ name: label(64) }),
	response: acknowledgement,
	errors: ["passkey_not_found"],
	example: { body: { name: "Ada's laptop" }, response: OK },
	async handle(context) {
		const { db, principal, input, nowMs } = context;
		const { userId } = principal;
		const id = passkeyId(input.params.id);
		const { name } = input.body;
		await batchOrFail(
			db,
			[
				guard("passkey_there", passkeyExists(userId, id)),
				updatePasskey(userId, id, { name }),
				logAccount({ userId, action: "passkey.rename", details: { name } }, accountOrigin(context), nowMs),
			],
			{ passkey_there: passkeyNotFound },
		);
		return OK;
	},
});

export const deletePasskey = endpoint({
	method: "DELETE",
	path: "/account/passkeys/:id",
	tag: TAG,
	summary: "Remove a passkey",
	description:
		"Refused where nothing else would be left to sign in with. Sessions that were signed in with it go on; DELETE /account/sessions ends them.",
	access: { ownSession: OWN },
	recentSignIn: true,
	response: acknowledgement,
	errors: ["passkey_not_found", "last_sign_in_method"],
	example: { response: OK },
	async handle(context) {
		const { db, principal, input, nowMs } = context;
		const { userId } = principal;
		const id = passkeyId(input.params.id);
		await batchOrFail(
			db,
			[
				guard("passkey_there", passkeyExists(userId, id)),
				...leavesAWayIn(context, userId, { passkey: id }),
				deletePasskeyStatement(userId, id),
				logAccount({ userId, action: "passkey.delete", details: { id } }, accountOrigin(context), nowMs),
			],
			{ passkey_there: passkeyNotFound, way_in_left: lastWayIn },
		);
		return OK;
	},
});

function passkeyId(text: string): string {
	const id = v.safeParse(uuid, text);
	if (!id.success) throw passkeyNotFound();
	return id.output;
}
