/**
 * The hosts under which the server answers. A request under another name would get links, mails and
 * audiences of identity tokens for that name, which somebody else may own.
 *
 * A deployment without PUBLIC_URL knows no name of its own and relies on Cloudflare, which routes
 * only the names of the account to it. Requests of devices are answered under every name, because
 * an address in a store build cannot be corrected.
 */
import type { Deps } from "../deps";
import { ApiError } from "../errors";
import type { AnyEndpoint } from "./endpoint";

const LOOPBACK = /^(localhost|.+\.localhost)$/;
/** Addresses of the machine and its networks, at which a local run is reached by phones. */
const IP_LITERAL = /^(\d{1,3}(\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/;

/** Whether devices send the request. */
export const isAnsweredUnderEveryName = ({ access, tag }: Pick<AnyEndpoint, "access" | "tag">): boolean =>
	"public" in access && tag === "Devices";

/** @throws {ApiError} `unknown_host` */
export function refuseUnknownHost(
	{ config: { localRun, publicUrl, bundlesUrl } }: Pick<Deps, "config">,
	endpoint: Pick<AnyEndpoint, "access" | "tag">,
	{ hostname, host }: URL,
): void {
	if (isAnsweredUnderEveryName(endpoint)) return;
	const isLocalRun = localRun !== undefined;
	if (!isLocalRun && publicUrl === undefined) return;
	if (isLocalRun && (LOOPBACK.test(hostname) || IP_LITERAL.test(hostname))) return;
	if (!isLocalRun && hostname.endsWith(".workers.dev")) return;
	if ([publicUrl, bundlesUrl].some((url) => url !== undefined && new URL(url).host === host)) return;
	throw new ApiError(
		"unknown_host",
		`This server does not answer as ${host}. Use the address of PUBLIC_URL, or set PUBLIC_URL to this one.`,
	);
}
