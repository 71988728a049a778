/**
 * The replacement of the passkey library's certificate code: it reads the two integers of a
 * signature like the original library, for every length, and reads no certificate.
 */
import { describe, expect, test } from "vitest";
import * as standIn from "../../src/features/accounts/webauthn-asn1";

const { AsnParser, ECDSASigValue } = standIn;
const part = (tag: number, bytes: readonly number[]) => [tag, bytes.length, ...bytes];
const signature = (r: readonly number[], s: readonly number[]) =>
	new Uint8Array(part(0x30, [...part(2, r), ...part(2, s)]));
const filled = (length: number, first: number) => [first, ...Array.from({ length: length - 1 }, (_, at) => at + 1)];

describe("the DER signature parser", () => {
	test.each([
		["usual ones", filled(32, 0x7f), filled(32, 0x01)],
		["ones whose sign needs a byte", [0, ...filled(32, 0xff)], [0, ...filled(32, 0x80)]],
		["short ones", [1], filled(31, 0x40)],
		["ones of P-384", [0, ...filled(48, 0x90)], filled(48, 0x10)],
	])("reads %s", (_, r, s) => {
		const read = AsnParser.parse(signature(r, s), ECDSASigValue);
		expect([...read.r]).toEqual(r);
		expect([...read.s]).toEqual(s);
	});

	const good = [...signature([1, 2], [3, 4])];
	test.each<[string, number[]]>([
		["nothing", []],
		["no sequence", [0x31, ...good.slice(1)]],
		["no whole numbers", good.map((byte, at) => (at === 2 ? 4 : byte))],
		["one number", [0x30, 4, 2, 2, 1, 2]],
		["three numbers", [0x30, 12, ...good.slice(2), 2, 2, 5, 6]],
		["more behind it", [...good, 0]],
		["less than it says", good.slice(0, -1)],
		["an empty number", [0x30, 5, 2, 0, 2, 1, 1]],
		["a number that ends beyond it", [0x30, 8, 2, 2, 1, 2, 2, 9, 3, 4]],
		["a length in more than one byte", [0x30, 0x81, 8, ...good.slice(2)]],
	])("rejects %s", (_, bytes) => {
		expect(() => AsnParser.parse(new Uint8Array(bytes), ECDSASigValue)).toThrow("the signature is not");
	});
});

test("refuses a certificate at every position", () => {
	expect(() => AsnParser.parse(signature([1], [2]), standIn.Certificate)).toThrow("certificates not looked at");
	expect(() => new standIn.X509Certificate()).toThrow("certificates not looked at");
});
