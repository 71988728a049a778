/**
 * Signing in with GitHub or an OpenID provider, by two redirects. The browser that asked holds what the answer is checked with in a
 * sealed cookie, so nobody is signed in by an answer that somebody else got. A provider's account is tied to one here by an address that
 * the provider has verified, and by nothing else: an address that anybody may claim there would open anybody's account here.
 */
import * as v from "valibot";
import { openKey, sealKey } from "../../authz/keys";
import type { ProviderConfig } from "../../config";
import { batchOrFail, guard, UniqueViolation } from "../../db/client";
import { accountByEmail, accountByIdentity, accountIs, insertIdentity, markEmailVerified } from "../../db/sign-in";
import { isReservedAddress } from "../../domain/reserved-address";
import { type Secrets, signingSecret } from "../../domain/secrets";
import { ApiError, causeText } from "../../errors";
import { endpoint } from "../endpoint";
import { localPath } from "../local-path";
import { beginProviderFlow, finishProviderFlow, type ProviderAccount, type ProviderFlow } from "../openid";
import { countSignIn } from "../request-limits";
import { emailAddress, optional, text } from "../schemas";
import { clearProviderCookie, providerCookie, readProviderToken, requireCookies } from "../session-cookie";
import { currentTokenHash, newSession } from "../sign-in";
import { SIGN_IN_TAG } from "./sign-in";

const FLOW_LIFETIME_MS = 10 * 60 * 1000;
/** What the sealed cookie is sealed for. */
const SEAL = "sign-in provider";
/** Characters; a browser keeps 4096 bytes of a cookie. */
const LONGEST_SEALED_FLOW = 8192;
const SIGN_IN_PAGE = "/sign-in";

const REDIRECT = { contentType: "text/plain", description: "The way on is in Location." } as const;
const WHY = "Nobody is signed in yet; the provider says who it is, to the browser that asked.";

function redirect(to: string, cookies: readonly string[] = []): Response {
	const headers = new Headers({ Location: to, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer" });
	for (const cookie of cookies) headers.append("Set-Cookie", cookie);
	return new Response(null, { status: 302, headers });
}

function configured(providers: readonly ProviderConfig[], id: string): ProviderConfig {
	const provider = providers.find((one) => one.id === id);
	if (provider !== undefined) return provider;
	throw new ApiError("sign_in_method_not_found", "This service knows no such provider; see GET /sign-in/methods.");
}

export const beginProvider = endpoint({
	method: "GET",
	path: "/sign-in/provider/:provider",
	tag: SIGN_IN_TAG,
	summary: "Go to a provider to sign in",
	description: "`next` is the path of this service to come back to; any other address is left out.",
	access: { public: WHY },
	query: v.object({ next: optional(text(2048)) }),
	status: [302],
	response: REDIRECT,
	errors: ["sign_in_method_not_found", "https_required", "too_many_requests"],
	example: { query: { next: "/docs" } },
	async handle({ deps, input, origin, nowMs, actor }) {
		requireCookies(origin);
		const provider = configured(deps.config.providers, input.params.provider);
		await countSignIn(deps, actor.ipAddress);
		try {
			const expiresAtMs = nowMs + FLOW_LIFETIME_MS;
			const { url, flow } = await beginProviderFlow(provider, origin, localPath(input.query.next), deps, expiresAtMs);
			const secret = signingSecret(deps.config.secrets, nowMs);
			const sealed = await sealKey(JSON.stringify(flow), SEAL, secret, deps.randomBytes);
			return redirect(url, [providerCookie(origin, sealed, FLOW_LIFETIME_MS)]);
		} catch (error) {
			deps.log("error", "provider_failed", { provider: provider.id, cause: causeText(error) });
			return redirect(`${SIGN_IN_PAGE}?error=unavailable`);
		}
	},
});

export const finishProvider = endpoint({
	method: "GET",
	path: "/sign-in/provider/:provider/callback",
	tag: SIGN_IN_TAG,
	summary: "Come back from a provider",
	description:
		"Signs in to the account that was signed in to with this provider before, or that has the address which the provider has verified; makes no account. Sends what is refused to the sign-in page, with `error`.",
	access: { public: WHY },
	consistency: "first-primary",
	query: v.object({ code: optional(text(4096)), state: optional(text(4096)), error: optional(text(4096)) }),
	status: [302],
	response: REDIRECT,
	errors: ["sign_in_method_not_found", "https_required"],
	example: { query: { code: "…", state: "…" } },
	async handle(context) {
		const { db, deps, input, origin, request, nowMs } = context;
		requireCookies(origin);
		const provider = configured(deps.config.providers, input.params.provider);
		const forget = clearProviderCookie(origin);
		const refused = (why: string) => redirect(`${SIGN_IN_PAGE}?error=${why}`, [forget]);
		const flow = await openFlow(readProviderToken(request.headers, origin), deps.config.secrets);
		if (flow === undefined || flow.provider !== provider.id || flow.expiresAtMs <= nowMs) return refused("refused");
		let found: ProviderAccount;
		try {
			found = await finishProviderFlow(provider, origin, flow, new URL(request.url), deps);
		} catch (error) {
			deps.log("warn", "provider_refused", { provider: provider.id, cause: causeText(error) });
			return refused("refused");
		}
		const address = v.safeParse(emailAddress, found.verifiedEmail);
		const [byIdentity, byEmail] = await db.batch([
			accountByIdentity(provider.identity, found.subject),
			// The service's own accounts are nobody's at a provider.
			accountByEmail(address.success && !isReservedAddress(address.output) ? address.output : ""),
		]);
		const [known] = byIdentity.rows;
		const account = known ?? byEmail.rows[0];
		if (account === undefined) return refused(address.success ? "no_account" : "email_not_verified");
		const session = newSession(context, account.id, provider.id);
		try {
			await batchOrFail(
				db,
				[
					guard("account_there", accountIs(account)),
					...(known === undefined
						? [
								...markEmailVerified(account.id, currentTokenHash(context), nowMs),
								insertIdentity(provider.identity, found.subject, account.id, nowMs),
							]
						: []),
					...session.statements,
				],
				{ account_there: () => new UniqueViolation("account") },
			);
		} catch (error) {
			// The same browser came back twice at once, or the account has just changed.
			if (error instanceof UniqueViolation) return refused("refused");
			throw error;
		}
		return redirect(flow.next ?? SIGN_IN_PAGE, [forget, session.cookie]);
	},
});

async function openFlow(sealed: string | undefined, secrets: Secrets): Promise<ProviderFlow | undefined> {
	if (sealed === undefined || sealed.length > LONGEST_SEALED_FLOW) return undefined;
	try {
		return JSON.parse(await openKey(sealed, SEAL, secrets)) as ProviderFlow;
	} catch {
		return undefined;
	}
}
