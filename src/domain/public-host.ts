/**
 * Tells hosts that can only be private from those that may be public, by their text alone: what the URL parser made of them. Names
 * are not resolved here.
 */
import { isValid, parse } from "ipaddr.js";

const PRIVATE_SUFFIXES = ["localhost", "local", "internal", "lan", "home.arpa", "test", "invalid", "onion"];

/** `hostname` as URL.hostname has it: lower case, IPv4 in dotted decimals, IPv6 in brackets. */
export function isPrivateHost(hostname: string): boolean {
	const host = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
	if (isValid(host)) {
		const address = parse(host);
		const plain = address.kind() === "ipv6" && "isIPv4MappedAddress" in address && address.isIPv4MappedAddress();
		return (plain ? address.toIPv4Address() : address).range() !== "unicast";
	}
	if (!host.includes(".")) return true;
	return PRIVATE_SUFFIXES.some((suffix) => host === suffix || host.endsWith(`.${suffix}`));
}
