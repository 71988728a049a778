/**
 * The first organization, its admin key and sign-in links of a deployment, through SQL for
 * `wrangler d1 execute`. Arguments of a program are visible in the process list, and SQL is an
 * argument, so it has only hashes of keys and tokens. The key is on this machine's disk before the
 * database has its hash.
 */
import { randomUUID } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { hashKey, isWellFormedKey } from "../authz/secrets";
import {
	bootstrapStatements,
	FIRST_ORGANIZATION_REPLACED,
	reclaimLinkStatements,
	replaceFirstKeyStatements,
	signInLinkStatements,
} from "../db/bootstrap";
import { adminKeyOf, createAdminKey, createSignInToken, noAccount } from "./admin-key";
import { Failure } from "./failure";
import { literal, sqlText } from "./sql-text";
import { isCode, writePrivately } from "./state";
import { DATABASE_BINDING, must, parse, sqlCommand, type Wrangler } from "./wrangler";

export interface KeyOptions {
	readonly keyPath: string;
	readonly newAdminKey?: boolean;
	/** A first deployment always creates a link. */
	readonly signInLink?: boolean;
	/** E-mail address of the account to sign in, instead of the operator's. */
	readonly signInLinkFor?: string;
}

export interface KeyState {
	readonly key: DeployedKey;
	/** Token of the one-time sign-in link; undefined if none was created. */
	readonly signInToken: string | undefined;
	/** Message for the operator. */
	readonly notice: string | undefined;
}

type DeployedKey =
	| { readonly state: "created" | "kept"; readonly text: string }
	/**
	 * The deployment has an organization, but the key file is missing or belongs to another
	 * deployment.
	 */
	| { readonly state: "elsewhere" };

/** @throws {Failure} with the remedy */
export async function ensureKey(wrangler: Wrangler, options: KeyOptions): Promise<KeyState> {
	const keptText = await readKey(options.keyPath);
	const token = createSignInToken();
	const look = async (text: string | undefined, organizationId: string | null = null) => {
		const hash = text === undefined ? null : hashKey(text);
		const query = [
			"SELECT (SELECT count(*) FROM organizations) AS organizations",
			`(SELECT count(*) FROM api_keys WHERE key_hash = ${literal(hash)}) AS known`,
			`(SELECT count(*) FROM organizations WHERE id = ${literal(organizationId)}) AS created`,
			`(SELECT count(*) FROM sign_in_links WHERE token_hash = ${literal(token.hash)}) AS links`,
		].join(", ");
		const command = sqlCommand(DATABASE_BINDING, query);
		const [answer] = parse<{ results: { organizations: number; known: number; created: number; links: number }[] }[]>(
			command,
			await must(wrangler, command),
		);
		const row = answer?.results[0];
		if (row === undefined) throw new Failure("The database did not answer. Run npm run deploy again.");
		return row;
	};
	// D1 runs the statements of one command as a batch. A file would be imported, and the database
	// answers nobody meanwhile.
	const write = async (statements: Parameters<typeof sqlText>[0]) => {
		await must(wrangler, sqlCommand(DATABASE_BINDING, sqlText(statements)));
	};
	const { organizations, known } = await look(keptText);
	if (organizations > 0 && options.newAdminKey !== true) {
		const key: DeployedKey =
			keptText !== undefined && known > 0 ? { state: "kept", text: keptText } : { state: "elsewhere" };
		const { signInLinkFor } = options;
		if (options.signInLink !== true && signInLinkFor === undefined) {
			return { key, signInToken: undefined, notice: undefined };
		}
		await write(
			signInLinkFor === undefined
				? signInLinkStatements(token, randomUUID, Date.now())
				: reclaimLinkStatements(token, signInLinkFor, randomUUID, Date.now()),
		);
		const isMade = (await look(keptText)).links > 0;
		if (!isMade && signInLinkFor !== undefined) throw new Failure(noAccount(signInLinkFor));
		return { key, signInToken: isMade ? token.text : undefined, notice: undefined };
	}
	const replace = organizations > 0;
	// A key file beside an empty database is left from an interrupted deployment, so its key is used.
	const key = replace || keptText === undefined ? createAdminKey() : adminKeyOf(keptText);
	await mkdir(dirname(options.keyPath), { recursive: true, mode: 0o700 });
	await writePrivately(options.keyPath, `${key.text}\n`);
	const now = Date.now();
	const { statements, organizationId } = (replace ? replaceFirstKeyStatements : bootstrapStatements)(
		key,
		randomUUID,
		now,
	);
	await write([...statements, ...signInLinkStatements(token, randomUUID, now)]);
	const { known: isKnown, created } = await look(key.text, organizationId);
	if (isKnown === 0) {
		throw new Failure(
			"The admin key was not stored, because another deployment finished first. Run npm run deploy -- --new-admin-key.",
		);
	}
	return {
		key: { state: "created", text: key.text },
		signInToken: token.text,
		notice: replace && created > 0 ? FIRST_ORGANIZATION_REPLACED : undefined,
	};
}

async function readKey(path: string): Promise<string | undefined> {
	let text: string;
	try {
		text = (await readFile(path, "utf8")).trim();
	} catch (error) {
		if (isCode(error, "ENOENT")) return undefined;
		throw new Failure(`${path} cannot be read. Make it readable, or move it away.`);
	}
	if (!isWellFormedKey(text)) throw new Failure(`${path} does not contain an API key. Move it away.`);
	return text;
}
