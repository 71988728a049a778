/**
 * Encryption in the format of the stock CLI, which the plugin opens with `publicKey` of
 * capacitor.config: AES-128-CBC with a fresh key for each bundle; that key and every SHA-256 are
 * encrypted with the RSA private key, which also proves who created the bundle.
 */
import {
	constants,
	createCipheriv,
	createPrivateKey,
	createPublicKey,
	type KeyObject,
	privateEncrypt,
	randomBytes,
} from "node:crypto";
import { join } from "node:path";
import { type Run, text } from "./command";
import { usage } from "./failure";
import { readText } from "./json-file";
import type { Project } from "./project";
import { GROOVY, type Syntax, sourceOf } from "./source-text";

/** The file that `capgo key create` writes. */
export const KEY_FILE = ".capgo_key_v2";
const MODULUS_BITS = 2048;
/** Devices report this much of their public key. */
const KEY_ID_LENGTH = 20;

export interface Encryption {
	readonly keyId: string;
	/** `<iv>:<AES key>`, both base64. */
	readonly sessionKey: string;
	encrypt(bytes: Uint8Array): Uint8Array<ArrayBuffer>;
	/** A hexadecimal SHA-256, encrypted. The same hash always gives the same text. */
	seal(sha256: string): string;
}

const SCRIPT: Syntax = { ...GROOVY, quotes: ['"', "'", "`"] };

/** Whether devices accept encrypted bundles only. The key may be computed, so its name counts. */
export const namesPublicKey = ({ config }: Pick<Project, "config">): boolean =>
	config !== undefined && /\bpublicKey\b["']?\s*[:,}]/.test(sourceOf(config.text, SCRIPT).code);

/**
 * The key that the options, the environment or the project have; undefined to upload unencrypted.
 */
export async function privateKeyOf(run: Run, project: Project): Promise<KeyObject | undefined> {
	if (run.options["no-encryption"] === true) return undefined;
	const path = text(run.options, "private-key");
	const given = run.environment.CAPSTAN_PRIVATE_KEY;
	const pem = path !== undefined ? await readText(path) : given || (await readText(join(project.directory, KEY_FILE)));
	if (pem === undefined) {
		if (path !== undefined)
			throw usage("private_key_not_found", `${path} does not exist; --private-key names a PEM file.`, {
				field: "private-key",
			});
		if (!namesPublicKey(project)) return undefined;
		throw usage(
			"private_key_missing",
			`The app has a publicKey, so its devices refuse bundles that are not encrypted. Put the private key into ${KEY_FILE}, name it with --private-key, or set CAPSTAN_PRIVATE_KEY.`,
		);
	}
	let key: KeyObject;
	try {
		key = createPrivateKey(pem);
	} catch {
		throw usage(
			"private_key_invalid",
			"The private key cannot be read; it must be an unencrypted PEM of RSA with 2048 bits.",
		);
	}
	if (key.asymmetricKeyType !== "rsa" || key.asymmetricKeyDetails?.modulusLength !== MODULUS_BITS) {
		throw usage(
			"private_key_invalid",
			"The private key is not RSA with 2048 bits, the only kind that devices can open.",
		);
	}
	return key;
}

/**
 * Base64 of the public key's PKCS#1 bytes, as `publicKey` of capacitor.config has it within a PEM.
 */
export function publicKeyText(key: KeyObject): string {
	return createPublicKey(key).export({ type: "pkcs1", format: "der" }).toString("base64");
}

export function encryptionWith(key: KeyObject): Encryption {
	const aesKey = randomBytes(16);
	const iv = randomBytes(16);
	const sign = (bytes: Uint8Array) => privateEncrypt({ key, padding: constants.RSA_PKCS1_PADDING }, bytes);
	return {
		keyId: publicKeyText(key).slice(0, KEY_ID_LENGTH),
		sessionKey: `${iv.toString("base64")}:${sign(aesKey).toString("base64")}`,
		encrypt(bytes) {
			const cipher = createCipheriv("aes-128-cbc", aesKey, iv);
			return Uint8Array.from(Buffer.concat([cipher.update(bytes), cipher.final()]));
		},
		seal: (hash) => sign(Buffer.from(hash, "hex")).toString("hex"),
	};
}
