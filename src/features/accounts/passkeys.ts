/**
 * Adds, lists, renames and removes the passkeys of the signed-in account. A challenge is valid once
 * and for five minutes; the batch that adds the passkey deletes it.
 */
import type { RegistrationResponseJSON } from "@simplewebauthn/server";
import * as v from "valibot";
import { hashKey, mintAttemptToken } from "../../authz/secrets";
import { guard, onUnique } from "../../db/client";
import {
	deletePasskey as deletePasskeyStatement,
	insertPasskey,
	type PasskeyRow,
	passkeyExists,
	passkeysOf,
	updatePasskey,
} from "../../db/passkeys";
import { logAccount } from "../../db/sessions";
import { attemptExists, beginAttempt, challengeOf, deleteAttempt } from "../../db/sign-in";
import { ApiError, causeText } from "../../errors";
import { endpoint, Reply } from "../../http/endpoint";
import {
	acknowledgement,
	label,
	nullableRfc3339,
	nullableTime,
	OK,
	rfc3339,
	text,
	time,
	uuid,
} from "../../http/schemas";
import { ACCOUNT_TAG, accountOrigin, leavesAWayIn, OWN_ACCOUNT } from "./new-session";
import { EXAMPLE_ATTEMPT } from "./sign-in";
import { CHALLENGE_LIFETIME_MS, checkRegistration, type NewPasskey, registrationOptions } from "./webauthn";

/**
 * Input and output of the browser's WebAuthn API as JSON (https://www.w3.org/TR/webauthn-3/); the
 * library validates them.
 */
const optionsSchema = v.looseObject({ challenge: v.string() });
export const credentialId = v.pipe(text(2048), v.regex(/^[\w-]+$/, "must be base64url"));
export const bytes = v.pipe(text(65_536), v.regex(/^[\w-]+=*$/, "must be base64url"));
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
export const EXAMPLE_ID = { id: "x3Jm0aQZ", rawId: "x3Jm0aQZ", type: "public-key" } as const;
export const EXAMPLE_CLIENT_DATA = "eyJ0eXBlIjoid2ViYXV0aG4uZ2V0In0";
const EXAMPLE_ATTESTATION = {
	...EXAMPLE_ID,
	response: { clientDataJSON: EXAMPLE_CLIENT_DATA, attestationObject: "o2NmbXRkbm9uZQ", transports: ["internal"] },
};
export const EXAMPLE_OPTIONS = { challenge: "9JgR…", rpId: "updates.example.com", userVerification: "required" };

export const tokenField = text(128);
export const answerOfOptions = v.strictObject({ attempt: v.string(), options: optionsSchema });

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
	new ApiError("passkey_not_found", "Your account has no passkey with this id. List yours with GET /account/passkeys.");

export const listPasskeys = endpoint({
	method: "GET",
	path: "/account/passkeys",
	tag: ACCOUNT_TAG,
	summary: "List your passkeys, oldest first",
	access: { ownSession: OWN_ACCOUNT },
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
	tag: ACCOUNT_TAG,
	summary: "Get the options to create a passkey",
	description: "Pass `options` to `navigator.credentials.create`, and send `attempt` with its result.",
	access: { ownSession: OWN_ACCOUNT },
	recentSignIn: true,
	body: v.object({}),
	response: answerOfOptions,
	errors: ["https_required"],
	example: { body: {}, response: { attempt: EXAMPLE_ATTEMPT, options: EXAMPLE_OPTIONS } },
	async handle({ db, deps, principal, origin, nowMs, actor }) {
		const { userId } = principal;
		const attempt = mintAttemptToken(deps.randomBytes);
		// Generated here, so that one round trip stores the challenge and loads the passkeys to exclude.
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
	tag: ACCOUNT_TAG,
	summary: "Add a passkey to your account",
	access: { ownSession: OWN_ACCOUNT },
	recentSignIn: true,
	body: v.object({ attempt: tokenField, name: label(64), credential: attestation }),
	status: [201],
	response: passkeySchema,
	errors: ["passkey_not_registered", "passkey_already_registered"],
	example: {
		body: { attempt: EXAMPLE_ATTEMPT, name: EXAMPLE_PASSKEY.name, credential: EXAMPLE_ATTESTATION },
		response: EXAMPLE_PASSKEY,
	},
	load: ({ body }, nowMs) => ({ challenge: challengeOf(hashKey(body.attempt), "passkey_registration", nowMs) }),
	async handle(context) {
		const { db, deps, principal, input, loaded, origin, nowMs } = context;
		const { userId } = principal;
		const { attempt, name, credential } = input.body;
		const [challenge] = loaded.challenge;
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
		await db.batch([
			guard(attemptExists(hash), notRegistered),
			deleteAttempt(hash),
			onUnique(
				insertPasskey({ ...made, ...row, user_id: userId }),
				"passkeys.credential_id",
				() =>
					new ApiError("passkey_already_registered", "This passkey is registered already; use another authenticator."),
			),
			logAccount({ userId, action: "passkey.create", details: { name } }, accountOrigin(context), nowMs),
		]);
		return new Reply(201, passkeyAnswer(row));
	},
});

const notRegistered = () =>
	new ApiError(
		"passkey_not_registered",
		"The passkey could not be verified, or took longer than five minutes. Try again.",
	);

export const renamePasskey = endpoint({
	method: "PUT",
	path: "/account/passkeys/:id",
	tag: ACCOUNT_TAG,
	summary: "Rename a passkey",
	access: { ownSession: OWN_ACCOUNT },
	body: v.object({ name: label(64) }),
	response: acknowledgement,
	errors: ["passkey_not_found"],
	example: { body: { name: "Ada's laptop" }, response: OK },
	async handle(context) {
		const { db, principal, input, nowMs } = context;
		const { userId } = principal;
		const id = passkeyId(input.params.id);
		const { name } = input.body;
		await db.batch([
			guard(passkeyExists(userId, id), passkeyNotFound),
			updatePasskey(userId, id, { name }),
			logAccount({ userId, action: "passkey.rename", details: { name } }, accountOrigin(context), nowMs),
		]);
		return OK;
	},
});

export const deletePasskey = endpoint({
	method: "DELETE",
	path: "/account/passkeys/:id",
	tag: ACCOUNT_TAG,
	summary: "Remove a passkey",
	description:
		"Refused if it is your last way to sign in. Sessions created with the passkey continue; DELETE /account/sessions ends them.",
	access: { ownSession: OWN_ACCOUNT },
	recentSignIn: true,
	response: acknowledgement,
	errors: ["passkey_not_found", "last_sign_in_method"],
	example: { response: OK },
	async handle(context) {
		const { db, principal, input, nowMs } = context;
		const { userId } = principal;
		const id = passkeyId(input.params.id);
		await db.batch([
			guard(passkeyExists(userId, id), passkeyNotFound),
			...leavesAWayIn(context, userId, { passkey: id }),
			deletePasskeyStatement(userId, id),
			logAccount({ userId, action: "passkey.delete", details: { id } }, accountOrigin(context), nowMs),
		]);
		return OK;
	},
});

function passkeyId(text: string): string {
	const id = v.safeParse(uuid, text);
	if (!id.success) throw passkeyNotFound();
	return id.output;
}
