/**
 * Signs in with a mailed code or a single-use link, and signs out. Nothing reveals whether an
 * address has an account: responses, statements and limits are the same, and mail is sent after the
 * response and to existing accounts only.
 */
import { sql } from "kysely";
import * as v from "valibot";
import { codeHashes, hashCode, hashKey, keyedHash, mintAttemptToken, mintCode } from "../../authz/secrets";
import { guard } from "../../db/client";
import { deleteSession, logAccount } from "../../db/sessions";
import {
	type AccountRow,
	accountByCode,
	accountByEmail,
	accountByLink,
	accountIs,
	accountOfAttempt,
	askedByBrowser,
	askedByNetwork,
	beginAttempt,
	CODE_LIFETIME_MS,
	countTry,
	deleteAttempt,
	deleteLink,
	isRightCode,
	linkExists,
	markEmailVerified,
	type NewAttempt,
} from "../../db/sign-in";
import { SIGN_IN_CODE_MINUTES } from "../../domain/defaults";
import { networkOf } from "../../domain/network/ip-allow-list";
import { isSameText, type Secret, signingSecret } from "../../domain/secrets";
import { DAY_MS } from "../../domain/time";
import { ApiError } from "../../errors";
import { clearSessionCookie, knownBrowserSetCookie, readKnownBrowser } from "../../http/cookies";
import { type Context, endpoint, Reply } from "../../http/endpoint";
import { countSignIn, tooManyRequests } from "../../http/limits/requests";
import { acknowledgement, emailAddress, OK, rfc3339, text, time } from "../../http/schemas";
import { sendMail } from "../../mail";
import {
	accountOrigin,
	currentTokenHash,
	newSession,
	requireOwnPage,
	type SignInContext,
	signedIn,
	signInFailed,
	waysIn,
} from "./new-session";

export const SIGN_IN_TAG = "Signing in";
export const WHY_PUBLIC_SIGN_IN =
	"The caller is not signed in yet; the request proves its identity, and only the service's own pages may send it.";

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
	summary: "List the sign-in methods of this deployment",
	description: "`code_delivery` says where a code arrives: in an e-mail, or in the terminal that runs `npm start`.",
	access: { public: "Shows the configuration of the deployment, and no data of any account." },
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
	summary: "Send a sign-in code by e-mail",
	description: [
		"The response is the same whether or not the address has an account.",
		`The code is valid for ${SIGN_IN_CODE_MINUTES} minutes and five tries, together with the \`attempt\` of this response.`,
		`Codes to one address are limited per ${SIGN_IN_CODE_MINUTES} minutes and per day; a browser that signed in with a code`,
		"before has its own limit.",
	],
	access: { public: WHY_PUBLIC_SIGN_IN },
	body: v.object({ email: emailAddress }),
	status: [202],
	response: v.strictObject({ status: v.literal("ok"), attempt: v.string(), expires_at: time }),
	errors: ["cross_site_request", "https_required", "sign_in_method_not_found"],
	example: {
		body: { email: "ada@example.com" },
		response: { status: "ok", attempt: EXAMPLE_ATTEMPT, expires_at: "2026-11-21T08:10:00.000Z" },
	},
	async handle(context) {
		const { deps, input, actor, waitUntil } = context;
		requireOwnPage(context);
		if (deps.config.mail === undefined) throw noMail();
		await countSignIn(deps, actor.ipAddress);
		const { email } = input.body;
		const attempt = { kind: "code", userId: null, email, askedBy: requesterOf(context, email) } as const;
		const { code, account, answer } = await startCode(context, attempt);
		if (account !== undefined) {
			waitUntil(
				sendMail(deps, {
					to: account.email,
					subject: `${code} is your sign-in code`,
					text: `${code} is your code to sign in at ${context.origin}. It is valid for ${SIGN_IN_CODE_MINUTES} minutes. Do not share it. If you did not request it, ignore this mail: nobody can sign in without the code.`,
				}),
			);
		}
		return new Reply(202, answer);
	},
});

/**
 * Starts an attempt with a code. The statements are the same whether or not the address has an
 * account.
 * @throws {ApiError} `too_many_requests`
 */
export async function startCode(
	{ db, deps, nowMs }: Pick<Context<string, undefined, undefined, undefined, readonly []>, "db" | "deps" | "nowMs">,
	about: Pick<NewAttempt, "kind" | "userId" | "askedBy"> & { readonly email: string },
) {
	const attempt = mintAttemptToken(deps.randomBytes);
	const code = mintCode(deps.randomBytes);
	const expiresAtMs = nowMs + CODE_LIFETIME_MS;
	const secret = hashCode(code, attempt.hash, signingSecret(deps.config.secrets, nowMs));
	const [begun, account] = await db.batch([
		beginAttempt({ ...about, tokenHash: attempt.hash, secret, expiresAtMs }, nowMs),
		accountByEmail(about.email),
	]);
	if (begun.rows.length === 0) {
		// The same for addresses with and without an account.
		throw tooManyRequests("Too many codes were requested for this address", CODE_LIFETIME_MS / 1000);
	}
	const answer = { status: "ok" as const, attempt: attempt.text, expires_at: rfc3339(expiresAtMs) };
	return { code, account: account.rows[0], answer };
}

export function noMail(): ApiError {
	return new ApiError(
		"sign_in_method_not_found",
		"This service sends no mail. Sign in another way, or ask its operator to set MAIL_PROVIDER.",
	);
}

export const signInWithCode = endpoint({
	method: "POST",
	path: "/sign-in/code/verify",
	tag: SIGN_IN_TAG,
	summary: "Sign in with a code",
	description:
		"Sets the session cookie and verifies the address. The first verification ends sessions and removes passkeys that were added to the account before.",
	access: { public: WHY_PUBLIC_SIGN_IN },
	body: v.object({ attempt: tokenField, code: codeField }),
	response: signedInSchema,
	errors: ["cross_site_request", "https_required", "sign_in_failed"],
	example: { body: { attempt: EXAMPLE_ATTEMPT, code: "123456" }, response: SIGNED_IN_EXAMPLE },
	async handle(context) {
		const { db, deps, input, nowMs } = context;
		requireOwnPage(context);
		const hash = hashKey(input.body.attempt);
		const codes = codeHashes(input.body.code, hash, deps.config.secrets);
		const account = accountOfAttempt(hash);
		const isRight = sql<boolean>`${isRightCode(hash, "code", codes, nowMs)} AND ${account} IS NOT NULL`;
		const session = newSession(context, account, "code", {}, isRight);
		// One batch counts the try, and on success deletes the attempt and creates the session.
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
	summary: "Sign in with a single-use link",
	description: [
		"`npm start` and `npm run deploy` create such a link for the operator.",
		"With `--sign-in-link-for=ADDRESS` they create one",
		"for another account, which also verifies its address.",
		"A POST, so that the token does not appear in a URL.",
	],
	access: { public: WHY_PUBLIC_SIGN_IN },
	body: v.object({ token: tokenField }),
	response: signedInSchema,
	errors: ["cross_site_request", "https_required", "sign_in_failed"],
	example: { body: { token: "sil_…" }, response: SIGNED_IN_EXAMPLE },
	load: ({ body }, nowMs) => ({ account: accountByLink(hashKey(body.token), nowMs) }),
	async handle(context) {
		const { db, input, loaded, nowMs } = context;
		requireOwnPage(context);
		const [account] = loaded.account;
		if (account === undefined) throw signInFailed();
		const hash = hashKey(input.body.token);
		const session = newSession(context, account.id, "link");
		await db.batch([
			guard(linkExists(hash, nowMs), () => signInFailed()),
			guard(accountIs(account), () => signInFailed()),
			deleteLink(hash),
			...(account.proves_email === 1 ? markEmailVerified(account.id, currentTokenHash(context), nowMs) : []),
			...session.statements,
		]);
		return new Reply(200, signedIn(account), { "Set-Cookie": session.cookie });
	},
});

export const signOut = endpoint({
	method: "POST",
	path: "/sign-out",
	tag: SIGN_IN_TAG,
	summary: "End this session and clear its cookie",
	access: { ownSession: "Ends the session of the request." },
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

/**
 * A browser in which an address was verified with a code has its own limits for codes, so that a
 * stranger who knows the address cannot block its owner. The cookie grants nothing else and does
 * not contain the address.
 */
const KNOWN_BROWSER_LIFETIME_MS = 365 * DAY_MS;
/**
 * Networks that share the limits of strangers. One person may control many smaller networks and
 * could switch between them.
 */
const STRANGER_BITS = { ipv4: 24, ipv6: 48 };

/** The requester of a code to this address, for `beginAttempt`. */
function requesterOf({ deps, request, origin, actor }: SignInContext, email: string): string {
	const [id = "", proof] = readKnownBrowser(request.headers, origin)?.split(".") ?? [];
	const isProved = deps.config.secrets.some((secret) => isSameText(proof ?? "", proofOf(id, email, secret)));
	if (isProved) return askedByBrowser(id);
	return askedByNetwork(actor.ipAddress === null ? undefined : networkOf(actor.ipAddress, STRANGER_BITS));
}

/** @throws {ApiError} `https_required` */
function knownBrowserCookie({ deps, origin, nowMs }: SignInContext, email: string): string {
	const id = deps.newId();
	const proof = proofOf(id, email, signingSecret(deps.config.secrets, nowMs));
	return knownBrowserSetCookie(origin, `${id}.${proof}`, KNOWN_BROWSER_LIFETIME_MS);
}

function proofOf(id: string, email: string, secret: Secret): string {
	return keyedHash("capstan known browser", `${id} ${email.toLowerCase()}`, secret);
}

const LOCAL_BASE = "https://capstan.invalid";

/**
 * The path to open after sign-in, or undefined if the text is not a path of this service, so that a
 * link to the sign-in page is no open redirect.
 */
export function localPath(text: string | undefined): string | undefined {
	// Browsers read \ as / and drop tabs and line breaks, so `/\t/example.com` would lead to another
	// host.
	if (text === undefined || !/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(text)) return undefined;
	const url = URL.canParse(text, LOCAL_BASE) ? new URL(text, LOCAL_BASE) : undefined;
	return url?.origin === LOCAL_BASE && !url.pathname.startsWith("//")
		? `${url.pathname}${url.search}${url.hash}`
		: undefined;
}
