/**
 * Tells hosts that can only be private from those that may be public, by their text alone: what the URL parser made of them. Names
 * are not resolved here.
 */
import ipaddr from "ipaddr.js";

const PRIVATE_SUFFIXES = [
	"localhost",
	"localdomain",
	"local",
	"internal",
	"lan",
	"home.arpa",
	"test",
	"invalid",
	"onion",
];

/** `hostname` as URL.hostname has it: lower case, IPv4 in dotted decimals, IPv6 in brackets. */
export function isPrivateHost(hostname: string): boolean {
	const host = hostname.replace(/^\[|\]$/g, "").replace(/\.+$/, "");
	if (ipaddr.isValid(host)) {
		const address = ipaddr.parse(host);
		// Public IPv6 is 2000::/3; what lies outside and is in no registry of ipaddr.js (e.g. ::127.0.0.1) may mean an IPv4 address.
		if (address instanceof ipaddr.IPv6 && ((address.parts[0] ?? 0) & 0xe000) !== 0x2000) return true;
		return address.range() !== "unicast";
	}
	if (!host.includes(".")) return true;
	return PRIVATE_SUFFIXES.some((suffix) => host === suffix || host.endsWith(`.${suffix}`));
}
