/**
 * Stands in for the certificate libraries of @simplewebauthn/server (`[alias]` in wrangler.toml), which weigh more than the rest of the
 * Worker does and which every isolate would parse at its start. Nobody is asked for an attestation, so no certificate is ever looked at:
 * an answer that comes with one is refused. All that is left of ASN.1 is the two numbers of an ECDSA signature; a wrong reading of them
 * can only make a signature fail.
 */

const SEQUENCE = 0x30;
const INTEGER = 0x02;
/** Lengths from here on are written in more than one byte; those of P-256 never are. */
const LONG_LENGTH = 0x80;

export class ECDSASigValue {
	constructor(
		readonly r: Uint8Array,
		readonly s: Uint8Array,
	) {}
}

export const AsnParser = {
	/** @throws {Error} for everything but the signature of an EC key on P-256 or P-384 */
	parse(bytes: Uint8Array, type: unknown): ECDSASigValue {
		if (type !== ECDSASigValue) throw new Error("attestations are not asked for, and certificates not looked at");
		const end = partAt(bytes, 0, SEQUENCE);
		const r = partAt(bytes, HEADER_BYTES, INTEGER);
		const s = partAt(bytes, r, INTEGER);
		if (end !== bytes.length || s !== end) throw new Error("the signature is not two numbers");
		return new ECDSASigValue(bytes.slice(2 * HEADER_BYTES, r), bytes.slice(r + HEADER_BYTES, s));
	},
};

const HEADER_BYTES = 2;

/** Where the part that begins here ends. */
function partAt(bytes: Uint8Array, start: number, tag: number): number {
	const length = bytes[start + 1] ?? LONG_LENGTH;
	const end = start + HEADER_BYTES + length;
	if (bytes[start] !== tag || length === 0 || length >= LONG_LENGTH || end > bytes.length) {
		throw new Error("the signature is not DER");
	}
	return end;
}

/** What is only ever a type of a certificate's part. */
class NoCertificate {
	constructor() {
		throw new Error("attestations are not asked for, and certificates not looked at");
	}
}
/** What is only ever compared with a certificate's part. */
const NO_OID = "";

export {
	NO_OID as id_ce_basicConstraints,
	NO_OID as id_ce_extKeyUsage,
	NO_OID as id_ce_keyDescription,
	NO_OID as id_ce_subjectAltName,
	NO_OID as id_ecdsaWithSHA256,
	NO_OID as id_ecdsaWithSHA384,
	NO_OID as id_ecdsaWithSHA512,
	NO_OID as id_ecPublicKey,
	NO_OID as id_ml_dsa_44,
	NO_OID as id_ml_dsa_65,
	NO_OID as id_ml_dsa_87,
	NO_OID as id_rsaEncryption,
	NO_OID as id_secp256r1,
	NO_OID as id_secp384r1,
	NO_OID as id_sha1WithRSAEncryption,
	NO_OID as id_sha256WithRSAEncryption,
	NO_OID as id_sha384WithRSAEncryption,
	NO_OID as id_sha512WithRSAEncryption,
	NoCertificate as AuthorityKeyIdentifierExtension,
	NoCertificate as BasicConstraints,
	NoCertificate as Certificate,
	NoCertificate as CRLDistributionPointsExtension,
	NoCertificate as ECParameters,
	NoCertificate as ExtendedKeyUsage,
	NoCertificate as KeyDescription,
	NoCertificate as OctetString,
	NoCertificate as RSAPublicKey,
	NoCertificate as SubjectAlternativeName,
	NoCertificate as SubjectKeyIdentifierExtension,
	NoCertificate as X509Certificate,
	NoCertificate as X509ChainBuilder,
	NoCertificate as X509Crl,
};
