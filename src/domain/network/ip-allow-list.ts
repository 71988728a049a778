/**
 * Address ranges (CIDR, IPv4 and IPv6) that may use an API key. An address that cannot be parsed is
 * in no range, so a limited key is refused when the address is unknown.
 */
import ipaddr from "ipaddr.js";

type Range = readonly [address: ipaddr.IPv4 | ipaddr.IPv6, prefixLength: number];

/**
 * Canonical form of a range: `192.0.2.7` is `192.0.2.7/32`, and host bits are cleared, so equal
 * ranges are equal texts. Undefined when the text is no range.
 */
export function normalizedRange(text: string): string | undefined {
	const range = parseRange(text);
	if (range === undefined) return undefined;
	const [address, prefixLength] = range;
	const bytes = address.toByteArray();
	const cleared = bytes.map((byte, index) => {
		const bits = Math.min(8, Math.max(0, prefixLength - index * 8));
		return byte & (0xff << (8 - bits)) & 0xff;
	});
	return `${ipaddr.fromByteArray(cleared).toString()}/${prefixLength}`;
}

/** Whether one of the ranges contains the address. */
export function isInRanges(ranges: readonly string[], address: string | null): boolean {
	if (address === null || !ipaddr.isValid(address)) return false;
	const parsed = ipaddr.process(address);
	return ranges.some((text) => {
		const range = parseRange(text);
		return range !== undefined && range[0].kind() === parsed.kind() && parsed.match(range[0], range[1]);
	});
}

/** The first range that is not within one of the outer ranges. */
export function firstRangeOutside(ranges: readonly string[], outer: readonly string[]): string | undefined {
	return ranges.find((text) => {
		const range = parseRange(text);
		return (
			range === undefined ||
			!outer.some((outerText) => {
				const around = parseRange(outerText);
				return (
					around !== undefined &&
					around[0].kind() === range[0].kind() &&
					around[1] <= range[1] &&
					range[0].match(around[0], around[1])
				);
			})
		);
	});
}

/**
 * The network of the given prefix length around an address, or the address itself at full length; a
 * mapped IPv4 address counts as IPv4. Undefined when the text is no address.
 */
export function networkOf(address: string, bits: Readonly<Record<"ipv4" | "ipv6", number>>): string | undefined {
	const [parsed, wholeLength] = parseRange(address) ?? [];
	if (parsed === undefined) return undefined;
	const length = bits[parsed.kind()];
	return length === wholeLength ? parsed.toString() : normalizedRange(`${parsed.toString()}/${length}`);
}

function parseRange(text: string): Range | undefined {
	const [address = "", prefix, ...rest] = text.split("/");
	// ipaddr.js accepts short forms such as "10.1" and octal, which are typing errors here.
	const fourParts = ipaddr.IPv4.isValidFourPartDecimal(address);
	if (rest.length > 0 || !(fourParts || ipaddr.IPv6.isValid(address)) || address.includes("%")) return undefined;
	const parsed = ipaddr.parse(address);
	const bits = parsed.kind() === "ipv4" ? 32 : 128;
	if (prefix !== undefined && !/^\d{1,3}$/.test(prefix)) return undefined;
	const length = prefix === undefined ? bits : Number(prefix);
	if (length > bits) return undefined;
	// A mapped IPv4 address is compared as IPv4.
	if (parsed instanceof ipaddr.IPv6 && parsed.isIPv4MappedAddress()) {
		return length < 96 ? undefined : [parsed.toIPv4Address(), length - 96];
	}
	return [parsed, length];
}
