/**
 * Signs in with GitHub or an OpenID provider, by two redirects. A sealed cookie in the browser
 * holds the state that the provider's response is checked with, so a response sent to another
 * browser signs nobody in. A provider's account is linked to an account by an address that the
 * provider has verified; an unverified address could be claimed by anyone.
 */

import * as v from "valibot";
import { openKey, sealKey } from "../../authz/secrets";
import type { ProviderConfig } from "../../config";
import { guard, onUnique } from "../../db/client";
import { Conflict, conflict } from "../../db/optimistic";
import { accountByEmail, accountByIdentity, accountIs, insertIdentity, markEmailVerified } from "../../db/sign-in";
import { isReservedAddress } from "../../domain/network/reserved-address";
import { type Secrets, signingSecret } from "../../domain/secrets";
import { MINUTE_MS } from "../../domain/time";
import { ApiError, causeText } from "../../errors";
import { clearProviderCookie, providerCookie, readProviderToken, requireCookies } from "../../http/cookies";
import { endpoint } from "../../http/endpoint";
import { countSignIn } from "../../http/limits/requests";
import { emailAddress, optional, text } from "../../http/schemas";
import { currentTokenHash, newSession } from "./new-session";
import { beginProviderFlow, finishProviderFlow, type ProviderAccount, type ProviderFlow } from "./openid";
import { localPath, SIGN_IN_TAG } from "./sign-in";

const FLOW_LIFETIME_MS = 10 * MINUTE_MS;
/** The purpose that the cookie is sealed for. */
const SEAL = "sign-in provider";
/** Characters; a browser keeps 4096 bytes of a cookie. */
const LONGEST_SEALED_FLOW = 8192;
const SIGN_IN_PAGE = "/sign-in";

const REDIRECT = { contentType: "text/plain", description: "Location holds the next address." } as const;
const WHY = "The caller is not signed in yet; the provider proves its identity to the browser that started the flow.";

function redirect(to: string, cookies: readonly string[] = []): Response {
	const headers = new Headers({ Location: to, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer" });
	for (const cookie of cookies) headers.append("Set-Cookie", cookie);
	return new Response(null, { status: 302, headers });
}

function configured(providers: readonly ProviderConfig[], id: string): ProviderConfig {
	const provider = providers.find((one) => one.id === id);
	if (provider !== undefined) return provider;
	throw new ApiError(
		"sign_in_method_not_found",
		"This deployment does not offer this provider. List its methods with GET /sign-in/methods.",
	);
}

export const beginProvider = endpoint({
	method: "GET",
	path: "/sign-in/provider/:provider",
	tag: SIGN_IN_TAG,
	summary: "Redirect to a provider to sign in",
	description: "`next` is the path of this service to return to; other addresses are ignored.",
	access: { public: WHY },
	query: v.object({ next: optional(text(2048)) }),
	status: [302],
	response: REDIRECT,
	errors: ["sign_in_method_not_found", "https_required"],
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
	summary: "Finish a sign-in at a provider",
	description: [
		"Signs in to the account that is linked to the provider's",
		"identity, or that has the address which the provider verified.",
		"Creates no account.",
		"A refusal redirects to the sign-in page with `error`.",
	],
	access: { public: WHY },
	query: v.object({ code: optional(text(4096)), state: optional(text(4096)), error: optional(text(4096)) }),
	status: [302],
	response: REDIRECT,
	errors: ["sign_in_method_not_found", "https_required"],
	example: { query: { code: "…", state: "…" } },
	async handle(context) {
		const { db, deps, input, origin, request, nowMs } = context;
		requireCookies(origin);
		const provider = configured(deps.config.providers, input.params.provider);
		const clearCookie = clearProviderCookie(origin);
		const refused = (why: string) => redirect(`${SIGN_IN_PAGE}?error=${why}`, [clearCookie]);
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
			// No provider can own the reserved addresses of the service's own accounts.
			accountByEmail(address.success && !isReservedAddress(address.output) ? address.output : ""),
		]);
		const [known] = byIdentity.rows;
		const account = known ?? byEmail.rows[0];
		if (account === undefined) return refused(address.success ? "no_account" : "email_not_verified");
		const session = newSession(context, account.id, provider.id);
		try {
			await db.batch([
				guard(accountIs(account), conflict),
				...(known === undefined
					? [
							...markEmailVerified(account.id, currentTokenHash(context), nowMs),
							onUnique(
								insertIdentity(provider.identity, found.subject, account.id, nowMs),
								"identities.provider, identities.subject",
								conflict,
							),
						]
					: []),
				...session.statements,
			]);
		} catch (error) {
			// Two concurrent callbacks of one browser, or a change of the account.
			if (error instanceof Conflict) return refused("refused");
			throw error;
		}
		return redirect(flow.next ?? SIGN_IN_PAGE, [clearCookie, session.cookie]);
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
