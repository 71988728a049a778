/**
 * Changes the address of the signed-in account: a code goes to the new address, and the code
 * changes it. The change ends all other sessions and notifies the old address.
 */
import * as v from "valibot";
import { codeHashes, hashKey, mintSessionToken } from "../../authz/secrets";
import { SESSION_LIFETIME_MS } from "../../authz/session";
import { auditEmailChange, changeEmail as changeEmailStatements } from "../../db/accounts";
import { logAccount } from "../../db/sessions";
import { askedByAccount, countTry, deleteAttempt, isRightCode } from "../../db/sign-in";
import { ApiError } from "../../errors";
import { sessionCookie } from "../../http/cookies";
import { endpoint, Reply } from "../../http/endpoint";
import { countSignIn } from "../../http/limits/requests";
import { personsAddress, text, time } from "../../http/schemas";
import { sendMail } from "../../mail";
import { ACCOUNT_TAG, accountOrigin, OWN_ACCOUNT, sessionOf, signInFailed } from "./new-session";
import { codeField, EXAMPLE_ATTEMPT, noMail, startCode } from "./sign-in";

export const sendEmailCode = endpoint({
	method: "POST",
	path: "/account/email",
	tag: ACCOUNT_TAG,
	summary: "Send a code to your new e-mail address",
	description:
		"The code is sent unless another account has the address. The response is the same in both cases. PUT /account/email changes the address.",
	access: { ownSession: OWN_ACCOUNT },
	recentSignIn: true,
	body: v.object({ email: personsAddress }),
	status: [202],
	response: v.strictObject({ status: v.literal("ok"), attempt: v.string(), expires_at: time }),
	errors: ["sign_in_method_not_found"],
	example: {
		body: { email: "ada@example.com" },
		response: { status: "ok", attempt: EXAMPLE_ATTEMPT, expires_at: "2026-11-21T08:10:00.000Z" },
	},
	async handle(context) {
		const { deps, principal, input, actor, origin, waitUntil } = context;
		if (deps.config.mail === undefined) throw noMail();
		await countSignIn(deps, actor.ipAddress);
		const { userId } = principal;
		const { email } = input.body;
		const attempt = { kind: "email", userId, email, askedBy: askedByAccount(userId) } as const;
		const { code, account, answer } = await startCode(context, attempt);
		if (account === undefined || account.id === userId) {
			waitUntil(
				sendMail(deps, {
					to: email,
					subject: `${code} is your confirmation code`,
					text: `${code} is your code to confirm this address for your account at ${origin}. It is valid for 10 minutes. If you did not request it, ignore this mail.`,
				}),
			);
		}
		return new Reply(202, answer);
	},
});

export const changeEmail = endpoint({
	method: "PUT",
	path: "/account/email",
	tag: ACCOUNT_TAG,
	summary: "Change your e-mail address, with the code that was sent to it",
	description: "Ends all other sessions and gives this one a new token. The old address is notified.",
	access: { ownSession: OWN_ACCOUNT },
	recentSignIn: true,
	body: v.object({ attempt: text(128), email: personsAddress, code: codeField }),
	response: v.strictObject({ status: v.literal("ok"), email: v.string() }),
	errors: ["sign_in_failed", "email_not_available"],
	example: {
		body: { attempt: EXAMPLE_ATTEMPT, email: "ada@example.com", code: "123456" },
		response: { status: "ok", email: "ada@example.com" },
	},
	async handle(context) {
		const { db, deps, principal, input, nowMs, actor, origin, waitUntil } = context;
		const { userId, sessionId, email: oldEmail } = sessionOf(principal);
		const { email, code } = input.body;
		const hash = hashKey(input.body.attempt);
		const codes = codeHashes(code, hash, deps.config.secrets);
		const isProved = isRightCode(hash, "email", codes, nowMs, { userId, email });
		const token = mintSessionToken(deps.randomBytes);
		const results = await db.batch([
			countTry(hash, "email", nowMs),
			auditEmailChange(userId, email, isProved, actor, nowMs),
			...changeEmailStatements({ userId, sessionId }, email, token.hash, isProved, nowMs, emailTaken),
			logAccount({ userId, action: "email.change", details: { email } }, accountOrigin(context), nowMs, isProved),
			deleteAttempt(hash, isProved),
		]);
		if (results.at(-1)?.changes !== 1) throw signInFailed({ userId });
		if (oldEmail !== email) {
			waitUntil(
				sendMail(deps, {
					to: oldEmail,
					subject: "The address of your account was changed",
					text: `The address of your account at ${origin} was changed. You can no longer sign in with this address. If you did not change it, contact an administrator of your organization or the operator of the service immediately.`,
				}),
			);
		}
		return new Reply(
			200,
			{ status: "ok" as const, email },
			{ "Set-Cookie": sessionCookie(origin, token.text, SESSION_LIFETIME_MS) },
		);
	},
});

function emailTaken(): ApiError {
	return new ApiError("email_not_available", "Another account has this address; use another one.");
}
