/**
 * Opens the database of a local run: integrity, migrations, the first organization with its admin
 * key, and a sign-in link. The admin key is written to disk before its hash is inserted, so the
 * next start finishes a run that crashed between the two.
 */
import { randomUUID } from "node:crypto";
import type { D1Database } from "@cloudflare/workers-types";
import {
	bootstrapStatements,
	FIRST_ORGANIZATION_REPLACED,
	reclaimLinkStatements,
	replaceFirstKeyStatements,
	signInLinkStatements,
} from "../db/bootstrap";
import { adminKeyOf, createAdminKey, createSignInToken, noAccount, signInLink } from "./admin-key";
import { diskFailure } from "./disk";
import { Failure } from "./failure";
import { type DatabaseKind, DevelopmentDatabase, migrate, UnknownMigration } from "./migrate";
import { damaged, isInitialized, type StatePaths, writePrivately } from "./state";

export async function openDatabase(db: D1Database, paths: StatePaths, kind?: DatabaseKind): Promise<string[]> {
	try {
		const check = await db.prepare("PRAGMA quick_check").all<{ quick_check: string }>();
		const verdict = check.results[0]?.quick_check ?? "no answer";
		if (verdict !== "ok") throw damaged(paths, "the database fails its integrity check");
		return await migrate(db, kind);
	} catch (error) {
		if (error instanceof Failure) throw error;
		if (error instanceof UnknownMigration) {
			throw new Failure(
				`The state directory ${paths.directory} was written by a newer Capstan (migration ${error.message}). Start that version, or move the directory away.`,
			);
		}
		if (error instanceof DevelopmentDatabase) {
			throw new Failure(
				`The state directory ${paths.directory} has the database of a development build, which no release can read: move the directory away to start with a new one, or set CAPSTAN_STATE to another directory.`,
			);
		}
		// A full disk looks like a damaged database.
		const known = await diskFailure(error, paths.directory, "The data is whole.");
		throw known instanceof Failure ? known : damaged(paths, "the database cannot be read");
	}
}

/**
 * A row has an object key only after its object was stored, so a missing object means that the
 * bucket was lost. Checks the newest one.
 */
export async function refuseLostBytes(
	db: D1Database,
	bucket: { head(key: string): Promise<unknown> },
	paths: StatePaths,
): Promise<void> {
	const newest = await db
		.prepare("SELECT object_key FROM bundles WHERE object_key IS NOT NULL ORDER BY id DESC LIMIT 1")
		.first<{ object_key: string }>();
	if (newest === null) return;
	const object = await bucket.head(newest.object_key).catch(() => null);
	if (object === null) throw damaged(paths, "the bundles' bytes are missing");
}

export async function bootstrap(
	db: D1Database,
	paths: StatePaths,
	keptKey: string | undefined,
	replace: boolean,
): Promise<{ created: boolean; adminKey: string | undefined; notice?: string }> {
	const first = await db.prepare("SELECT id FROM organizations LIMIT 1").first<{ id: string }>();
	if (first === null) {
		if (await isInitialized(paths)) throw damaged(paths, "the database is empty");
		// A key file without an organization is left from an interrupted first run, so its key is used.
		const key = keptKey === undefined ? createAdminKey() : adminKeyOf(keptKey);
		await writePrivately(paths.adminKey, `${key.text}\n`);
		await run(db, bootstrapStatements(key, randomUUID, Date.now()).statements);
		await writePrivately(paths.initialized, `${new Date().toISOString()}\n`);
		return { created: true, adminKey: key.text };
	}
	// The first run was interrupted before it wrote this mark.
	if (!(await isInitialized(paths))) await writePrivately(paths.initialized, `${new Date().toISOString()}\n`);
	if (replace) {
		const key = createAdminKey();
		await writePrivately(paths.adminKey, `${key.text}\n`);
		const { statements, organizationId } = replaceFirstKeyStatements(key, randomUUID, Date.now());
		await run(db, statements);
		const replaced = await db.prepare("SELECT 1 FROM organizations WHERE id = ?").bind(organizationId).first();
		return {
			created: false,
			adminKey: key.text,
			...(replaced === null ? {} : { notice: FIRST_ORGANIZATION_REPLACED }),
		};
	}
	return { created: false, adminKey: keptKey };
}

/**
 * A sign-in link for the operator, or for the account with this address; undefined if the
 * operator's account is not known.
 */
export async function createSignInLink(
	db: D1Database,
	origin: string,
	email: string | undefined,
): Promise<string | undefined> {
	const token = createSignInToken();
	await run(
		db,
		email === undefined
			? signInLinkStatements(token, randomUUID, Date.now())
			: reclaimLinkStatements(token, email, randomUUID, Date.now()),
	);
	const made = await db.prepare("SELECT 1 FROM sign_in_links WHERE token_hash = ?").bind(token.hash).first();
	if (made === null && email !== undefined) throw new Failure(noAccount(email));
	return made === null ? undefined : signInLink(origin, token.text);
}

async function run(
	db: D1Database,
	statements: readonly { sql: string; parameters: readonly unknown[] }[],
): Promise<void> {
	await db.batch(statements.map((statement) => db.prepare(statement.sql).bind(...statement.parameters)));
}
