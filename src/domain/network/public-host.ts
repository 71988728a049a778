/**
 * Distinguishes private from possibly public hosts by their text, as the URL parser normalizes it.
 * Names are not resolved.
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

/** @param hostname as in URL.hostname: lower case, dotted decimal IPv4, IPv6 in brackets */
export function isPrivateHost(hostname: string): boolean {
	const host = hostname.replace(/^\[|\]$/g, "").replace(/\.+$/, "");
	if (ipaddr.isValid(host)) {
		const address = ipaddr.parse(host);
		// Public IPv6 is 2000::/3. Other addresses that ipaddr.js does not classify, such as ::127.0.0.1,
		// may embed an IPv4 address.
		if (address instanceof ipaddr.IPv6 && ((address.parts[0] ?? 0) & 0xe000) !== 0x2000) return true;
		return address.range() !== "unicast";
	}
	if (!host.includes(".")) return true;
	return PRIVATE_SUFFIXES.some((suffix) => host === suffix || host.endsWith(`.${suffix}`));
}
