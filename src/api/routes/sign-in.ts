/**
 * Signing in with a code that is sent by e-mail or with a link that works once, and signing out. Whether an address has an account is
 * told by nothing: answers, statements and limits are the same, and mail goes out after the answer and to accounts alone.
 */
import { sql } from "kysely";
import * as v from "valibot";
import { codeHashes, hashCode, hashKey, mintAttemptToken, mintCode } from "../../authz/keys";
import { batchOrFail, guard } from "../../db/client";
import { deleteSession, logAccount } from "../../db/sessions";
import {
	type AccountRow,
	accountByCode,
	accountByEmail,
	accountByLink,
	accountIs,
	accountOfAttempt,
	beginAttempt,
	CODE_LIFETIME_MS,
	countTry,
	deleteAttempt,
	deleteLink,
	isRightCode,
	linkExists,
	markEmailVerified,
} from "../../db/sign-in";
import { signingSecret } from "../../domain/secrets";
import { ApiError } from "../../errors";
import { sendMail } from "../../events/mail";
import { endpoint, Reply } from "../endpoint";
import { knownBrowserCookie, whoAsks } from "../known-browser";
import { countSignIn, tooManyCodes } from "../request-limits";
import { acknowledgement, emailAddress, OK, rfc3339, text, time } from "../schemas";
import { clearSessionCookie } from "../session-cookie";
import {
	accountOrigin,
	currentTokenHash,
	newSession,
	requireOwnPage,
	signedIn,
	signInFailed,
	waysIn,
} from "../sign-in";

export const SIGN_IN_TAG = "Signing in";
export const WHY_PUBLIC_SIGN_IN =
	"Nobody is signed in yet; what is sent proves who it is, and only the service's own pages may send it.";

const tokenField = text(128);
export const codeField = v.pipe(v.string(), v.trim(), v.regex(/^\d{6}$/, "must be the six digits of the code"));
export const signedInSchema = v.strictObject({ status: v.literal("ok"), uid: v.string(), email: v.string() });
export const SIGNED_IN_EXAMPLE = {
	status: "ok",
	uid: "0c7f0c5e-34a5-4f5c-8b60-8a2f0b8c1d11",
	email: "ada@example.com",
} as const;
export const EXAMPLE_ATTEMPT = "sia_…";

export const signInMethods = endpoint({
	method: "GET",
	path: "/sign-in/methods",
	tag: SIGN_IN_TAG,
	summary: "List the ways in which people can sign in here",
	description:
		"`code_delivery` is where a code is to be found: in an e-mail or, of a run of `npm start`, in the terminal in which that runs.",
	access: { public: "It tells how this deployment is set up, and nothing of any account." },
	response: v.strictObject({
		code: v.boolean(),
		code_delivery: v.nullable(v.picklist(["email", "terminal"])),
		passkey: v.boolean(),
		providers: v.array(v.strictObject({ id: v.string(), name: v.string() })),
	}),
	errors: [],
	example: {
		response: { code: true, code_delivery: "email", passkey: true, providers: [{ id: "github", name: "GitHub" }] },
	},
	async handle(context) {
		const { code, passkeys } = waysIn(context);
		const { mail, providers } = context.deps.config;
		const inTerminal = mail?.provider === "terminal";
		return {
			code,
			code_delivery: mail === undefined ? null : inTerminal ? ("terminal" as const) : ("email" as const),
			passkey: passkeys,
			providers: providers.map(({ id, name }) => ({ id, name })),
		};
	},
});

export const sendSignInCode = endpoint({
	method: "POST",
	path: "/sign-in/code",
	tag: SIGN_IN_TAG,
	summary: "Send a code by e-mail",
	description:
		"The answer is the same whether the address has an account or not. The code is good for ten minutes and five tries, together with the `attempt` of this answer. So many codes to an address are sent in ten minutes and in a day; a browser that signed in with a code before is counted by itself.",
	access: { public: WHY_PUBLIC_SIGN_IN },
	consistency: "first-primary",
	body: v.object({ email: emailAddress }),
	status: [202],
	response: v.strictObject({ status: v.literal("ok"), attempt: v.string(), expires_at: time }),
	errors: ["cross_site_request", "https_required", "sign_in_method_not_found", "too_many_requests"],
	example: {
		body: { email: "ada@example.com" },
		response: { status: "ok", attempt: EXAMPLE_ATTEMPT, expires_at: "2026-11-21T08:10:00.000Z" },
	},
	async handle(context) {
		const { db, deps, input, nowMs, actor, waitUntil } = context;
		requireOwnPage(context);
		if (deps.config.mail === undefined) throw noMail();
		await countSignIn(deps, actor.ipAddress);
		const { email } = input.body;
		const attempt = mintAttemptToken(deps.randomBytes);
		const code = mintCode(deps.randomBytes);
		const expiresAtMs = nowMs + CODE_LIFETIME_MS;
		const secret = hashCode(code, attempt.hash, signingSecret(deps.config.secrets, nowMs));
		const [begun, account] = await db.batch([
			beginAttempt(
				{
					...{ tokenHash: attempt.hash, kind: "code", userId: null, email, secret, expiresAtMs },
					askedBy: whoAsks(context, email),
				},
				nowMs,
			),
			accountByEmail(email),
		]);
		if (begun.rows.length === 0) throw tooManyCodes();
		const [known] = account.rows;
		if (known !== undefined) {
			waitUntil(
				sendMail(deps, {
					to: known.email,
					subject: `${code} signs you in`,
					text: `${code} is your code to sign in at ${context.origin}. It is good for ten minutes. If you did not ask for it, do nothing: nobody gets in without it, so tell it to nobody.`,
				}),
			);
		}
		return new Reply(202, { status: "ok" as const, attempt: attempt.text, expires_at: rfc3339(expiresAtMs) });
	},
});

export function noMail(): ApiError {
	return new ApiError(
		"sign_in_method_not_found",
		"This service sends no mail; sign in another way, or have its operator set MAIL_PROVIDER.",
	);
}

export const signInWithCode = endpoint({
	method: "POST",
	path: "/sign-in/code/verify",
	tag: SIGN_IN_TAG,
	summary: "Sign in with the code",
	description:
		"Sets the session's cookie. It also proves that the address is yours: whoever used the account before anybody proved that is signed out and loses their passkeys.",
	access: { public: WHY_PUBLIC_SIGN_IN },
	consistency: "first-primary",
	body: v.object({ attempt: tokenField, code: codeField }),
	response: signedInSchema,
	errors: ["cross_site_request", "https_required", "sign_in_failed", "too_many_requests"],
	example: { body: { attempt: EXAMPLE_ATTEMPT, code: "123456" }, response: SIGNED_IN_EXAMPLE },
	async handle(context) {
		const { db, deps, input, nowMs } = context;
		requireOwnPage(context);
		const hash = hashKey(input.body.attempt);
		const codes = codeHashes(input.body.code, hash, deps.config.secrets);
		const account = accountOfAttempt(hash);
		const isRight = sql<boolean>`${isRightCode(hash, "code", codes, nowMs)} AND ${account} IS NOT NULL`;
		const session = newSession(context, account, "code", {}, isRight);
		// One batch, so that the try is counted whatever happens, and a right code is used up with what it gives.
		const [, found] = await db.batch([
			countTry(hash, "code", nowMs),
			accountByCode(hash, isRight),
			...markEmailVerified(account, currentTokenHash(context), nowMs, isRight),
			...session.statements,
			deleteAttempt(hash, isRight),
		]);
		const [signed] = found.rows as AccountRow[];
		if (signed === undefined) throw signInFailed({ attempt: hash });
		return new Reply(200, signedIn(signed), {
			"Set-Cookie": [session.cookie, knownBrowserCookie(context, signed.email)],
		});
	},
});

export const signInWithLink = endpoint({
	method: "POST",
	path: "/sign-in/link",
	tag: SIGN_IN_TAG,
	summary: "Sign in with a link that works once",
	description:
		"`npm start` and `npm run deploy` create such a link for the operator, and with `--sign-in-link-for=ADDRESS` for another account: then it also proves that the address is its owner's. A POST, so that the token stands in no URL.",
	access: { public: WHY_PUBLIC_SIGN_IN },
	consistency: "first-primary",
	body: v.object({ token: tokenField }),
	response: signedInSchema,
	errors: ["cross_site_request", "https_required", "sign_in_failed", "too_many_requests"],
	example: { body: { token: "sil_…" }, response: SIGNED_IN_EXAMPLE },
	load: ({ body }, nowMs) => [accountByLink(hashKey(body.token), nowMs)] as const,
	async handle(context) {
		const { db, input, loaded, nowMs } = context;
		requireOwnPage(context);
		const [account] = loaded[0].rows;
		if (account === undefined) throw signInFailed();
		const hash = hashKey(input.body.token);
		const session = newSession(context, account.id, "link");
		await batchOrFail(
			db,
			[
				guard("unused", linkExists(hash, nowMs)),
				guard("account_there", accountIs(account)),
				deleteLink(hash),
				...(account.proves_email === 1 ? markEmailVerified(account.id, currentTokenHash(context), nowMs) : []),
				...session.statements,
			],
			{ unused: () => signInFailed(), account_there: () => signInFailed() },
		);
		return new Reply(200, signedIn(account), { "Set-Cookie": session.cookie });
	},
});

export const signOut = endpoint({
	method: "POST",
	path: "/sign-out",
	tag: SIGN_IN_TAG,
	summary: "End this session and take its cookie away",
	access: { ownSession: "It ends the session that it is sent with." },
	response: acknowledgement,
	errors: [],
	example: { response: OK },
	async handle(context) {
		const { db, principal, origin, nowMs } = context;
		if (principal.kind !== "session") throw signInFailed();
		const { userId, sessionId } = principal;
		await db.batch([
			deleteSession(userId, sessionId),
			logAccount({ userId, action: "sign_out" }, accountOrigin(context), nowMs),
		]);
		return new Reply(200, OK, clearSessionCookie(origin));
	},
});
