/**
 * Which issuers a publisher may name, and from where their keys may be fetched: https and public,
 * or loopback where the server itself runs locally. An issuer is compared as text, so only its one
 * normal form is accepted.
 */
import { isPrivateHost } from "../network/public-host";

const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/** The reason why the address may not be fetched; undefined: none. */
export function addressProblem(text: string, isLocalRun: boolean): string | undefined {
	if (!URL.canParse(text)) return "must be an https address";
	const url = new URL(text);
	if (url.username !== "" || url.password !== "") return "must not contain a user name or password";
	if (isLocalRun && LOOPBACK.includes(url.hostname) && ["http:", "https:"].includes(url.protocol)) return undefined;
	if (url.protocol !== "https:") return "must be an https address";
	return isPrivateHost(url.hostname) ? "must be a public address" : undefined;
}

/** The reason why a publisher may not name the issuer; undefined: none. */
export function issuerProblem(issuer: string, isLocalRun: boolean): string | undefined {
	const problem = addressProblem(issuer, isLocalRun);
	if (problem !== undefined) return problem;
	const { search, hash, href } = new URL(issuer);
	if (search !== "" || hash !== "" || /[?#]/.test(issuer)) return "must not have a query or a fragment";
	if (issuer.endsWith("/")) return "must not end with a slash";
	return href === issuer || href === `${issuer}/` ? undefined : `must be written as ${href.replace(/\/$/, "")}`;
}
