/**
 * Replaces the certificate libraries of @simplewebauthn/server (`[alias]` in wrangler.toml), which
 * are larger than the rest of the Worker and would be parsed by every isolate at its start. The
 * service requests no attestation, so no certificate is needed, and a response with one is refused.
 * The only ASN.1 left is the pair of integers of an ECDSA signature; misreading them can only make
 * a signature fail.
 */

const SEQUENCE = 0x30;
const INTEGER = 0x02;
/** Lengths from this value on take more than one byte; lengths of P-256 signatures never do. */
const LONG_LENGTH = 0x80;

export class ECDSASigValue {
	constructor(
		readonly r: Uint8Array,
		readonly s: Uint8Array,
	) {}
}

export const AsnParser = {
	/** @throws {Error} for everything except an ECDSA signature on P-256 or P-384 */
	parse(bytes: Uint8Array, type: unknown): ECDSASigValue {
		if (type !== ECDSASigValue) throw new Error("attestations are not asked for, and certificates not looked at");
		const end = endOfElement(bytes, 0, SEQUENCE);
		const r = endOfElement(bytes, HEADER_BYTES, INTEGER);
		const s = endOfElement(bytes, r, INTEGER);
		if (end !== bytes.length || s !== end) throw new Error("the signature is not two numbers");
		return new ECDSASigValue(bytes.slice(2 * HEADER_BYTES, r), bytes.slice(r + HEADER_BYTES, s));
	},
};

const HEADER_BYTES = 2;

/** The end offset of the DER element that starts here. */
function endOfElement(bytes: Uint8Array, start: number, tag: number): number {
	const length = bytes[start + 1] ?? LONG_LENGTH;
	const end = start + HEADER_BYTES + length;
	if (bytes[start] !== tag || length === 0 || length >= LONG_LENGTH || end > bytes.length) {
		throw new Error("the signature is not DER");
	}
	return end;
}

/** Stands in for types of certificates, which are never constructed. */
class NoCertificate {
	constructor() {
		throw new Error("attestations are not asked for, and certificates not looked at");
	}
}
/** Stands in for OIDs that are compared only with fields of certificates. */
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
