/**
 * The running product with organizations to attack: one for every operation, one that must stay
 * unchanged, and one whose administrator is a stranger to all others. Organizations are inserted;
 * everything else is created by requests.
 */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { hashCode, hashKey, mintKey, mintSignInLinkToken } from "../../../src/authz/secrets";
import { parseSecret } from "../../../src/domain/secrets";
import { answerOf, type Product } from "../../node/support/product";
import {
	type Answer,
	createTestApp,
	createTestKey,
	type RequestOptions,
	type Scene,
	setTestChannel,
	type TestApp,
	uploadTestBundle,
} from "../../worker/support/scene";
import type { People } from "../../worker/support/session-requests";
import type { KnownIds } from "./values";

/** Stands in names and comments that only the owner may read. */
export const CANARY = "canary-that-must-not-sing";

export interface Organization extends People {
	readonly userId: string;
	readonly adminKeyId: string;
}

export interface Target {
	readonly organization: Organization;
	readonly app: TestApp;
	/** A key that can only read the one app. */
	readonly narrowKey: string;
	readonly known: KnownIds;
}

/** Requests over HTTP, as the functions of scenes send them. */
export function requestOver(origin: string): Scene["request"] {
	return async <Body>(method: string, path: string, options: RequestOptions = {}): Promise<Answer<Body>> => {
		const { key, query = {}, body, rawBody, headers } = options;
		const url = new URL(path, origin);
		for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
		const response = await answerOf(String(url), {
			method,
			// As in the isolate, where nothing follows one.
			redirect: "manual",
			headers: {
				...(key === undefined ? {} : { authorization: key }),
				...(body === undefined ? {} : { "content-type": "application/json" }),
				...Object.fromEntries(Object.entries(headers ?? {}).filter(([name]) => name !== "content-length")),
			},
			...(body === undefined ? {} : { body: JSON.stringify(body) }),
			...(rawBody === undefined ? {} : { body: rawBody as NonNullable<RequestInit["body"]> }),
		});
		const bytes = Buffer.from(await response.arrayBuffer());
		const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
		return {
			status: response.status,
			body: (isJson && bytes.length > 0 ? JSON.parse(bytes.toString()) : bytes) as Body,
			headers: response.headers as unknown as Headers,
			trips: undefined,
		};
	};
}

export async function databaseOf(product: Product): Promise<D1Database> {
	return (await product.running.miniflare.getD1Database("DB")) as unknown as D1Database;
}

/** Rows that one statement inserts. */
const MOST_ROWS = 100;

/**
 * Inserts an organization of each name, each with an administrator. All that a run needs are made
 * at once, before it: a call through Miniflare's proxy stops this whole process until it is
 * answered.
 */
export async function insertOrganizations(
	product: Product,
	db: D1Database,
	names: readonly string[],
): Promise<Organization[]> {
	const rows: Record<string, Record<string, string | number>[]> = {};
	const nowMs = Date.now();
	const insert = (table: string, row: Record<string, string | number>) => {
		rows[table] = [...(rows[table] ?? []), row];
	};
	const organizations = names.map((name) => {
		const [orgId, userId, adminKeyId] = [randomUUID(), randomUUID(), randomUUID()];
		const key = mintKey((length) => randomBytes(length));
		const times = { created_at_ms: nowMs, updated_at_ms: nowMs };
		const role = { role_name: "org_super_admin", scope_type: "org", org_id: orgId, created_at_ms: nowMs };
		insert("users", { id: userId, email: `${userId}@example.com`, created_at_ms: nowMs });
		insert("organizations", { id: orgId, name, created_by: userId, ...times });
		insert("api_keys", {
			id: adminKeyId,
			org_id: orgId,
			user_id: userId,
			name: "administrator",
			key_hash: key.hash,
			key_hint: key.hint,
			global_permissions: '["org.create"]',
			...times,
		});
		insert("role_bindings (keys)", { id: randomUUID(), api_key_id: adminKeyId, ...role });
		insert("role_bindings (users)", { id: randomUUID(), user_id: userId, ...role });
		const scene = { orgId, userId, adminKeyId, adminKey: key.text, request: requestOver(product.url) };
		return { ...scene, ...reached(product, db, userId) };
	});
	// The values are all our own.
	const literal = (value: string | number) => (typeof value === "number" ? String(value) : `'${value}'`);
	const statements = Object.entries(rows).flatMap(([table, all]) =>
		Array.from({ length: Math.ceil(all.length / MOST_ROWS) }, (_, index) => {
			const some = all.slice(index * MOST_ROWS, (index + 1) * MOST_ROWS);
			const values = some.map((row) => `(${Object.values(row).map(literal).join(", ")})`).join(", ");
			return `INSERT INTO ${table.split(" ")[0]} (${Object.keys(some[0] ?? {}).join(", ")}) VALUES ${values};`;
		}),
	);
	await db.exec(statements.join("\n"));
	return organizations;
}

/** Makes the organization the first one of the server, whose owners are the operator. */
export async function makeOperator(db: D1Database, { userId, orgId }: Organization): Promise<void> {
	await db.prepare("UPDATE installation SET first_user_id = ?, first_org_id = ?").bind(userId, orgId).run();
}

/** Replaces the code that was mailed by a known one. */
function reached(product: Product, db: D1Database, userId: string): Omit<People, keyof Scene> {
	const random = (length: number) => randomBytes(length);
	return {
		origin: product.url,
		cookieName: "capstan-session",
		async codeSentTo(_email, attempt) {
			const [code, hash] = ["271828", hashKey(attempt)];
			const secret = parseSecret((await readFile(join(product.running.stateDirectory, "secret.key"), "utf8")).trim());
			if (secret === undefined) throw new Error("the state directory has no secret");
			await db
				.prepare("UPDATE sign_in_attempts SET secret = ? WHERE token_hash = ?")
				.bind(hashCode(code, hash, secret), hash)
				.run();
			return code;
		},
		async linkToken() {
			const { text, hash } = mintSignInLinkToken(random);
			await db
				.prepare("INSERT INTO sign_in_links (token_hash, user_id, created_at_ms, expires_at_ms) VALUES (?, ?, ?, ?)")
				.bind(hash, userId, Date.now(), Date.now() + 3_600_000)
				.run();
			return text;
		},
		async linkProvider(uid) {
			await db
				.prepare("INSERT INTO identities (provider, subject, user_id, created_at_ms) VALUES ('github', ?, ?, ?)")
				.bind(randomUUID(), uid, Date.now())
				.run();
		},
	};
}

/** An organization with an app, for one operation. */
export async function createTarget(organization: Organization, bystander: Bystander): Promise<Target> {
	const app = await createTestApp(organization);
	const narrow = await createTestKey(organization, "app_reader", app);
	const bundle = await uploadTestBundle(organization, app, "1.0.0");
	const channel = await setTestChannel(organization, app, "standing", { version: "1.0.0" });
	const own = [organization.orgId, organization.userId, app.appId, app.uuid, narrow.id, "1.0.0", "standing"];
	return {
		organization,
		app,
		narrowKey: narrow.text,
		known: {
			texts: [...own, ...bystander.known.texts],
			numbers: [bundle, channel, ...bystander.known.numbers],
		},
	};
}

/**
 * Whether the keys of the target still work; an attack with its administrator's key may well have
 * ended that.
 */
export async function isIntact({ organization, app, narrowKey }: Target): Promise<boolean> {
	const path = `/app/${app.appId}`;
	for (const key of [organization.adminKey, narrowKey]) {
		if ((await organization.request("GET", path, { key })).status !== 200) return false;
	}
	return true;
}

export interface Bystander {
	readonly organization: Organization;
	readonly known: KnownIds;
	/** Differences in words; empty if nothing has changed. */
	changes(): Promise<string[]>;
}

/** Columns that change because time goes by. */
const RESTLESS = ["last_used_at_ms"];
/** Columns that hold what clients call things, ids of others among them. */
const FREE_TEXT = ["key_id", "target_id"];

/** An organization with everything in it, and all rows of the database as they are now. */
export async function createBystander(db: D1Database, organization: Organization): Promise<Bystander> {
	const app = await createTestApp(organization, "bystander");
	const bundle = await uploadTestBundle(organization, app, "1.0.0");
	const channel = await setTestChannel(organization, app, "bystanders", { version: "1.0.0" });
	const key = await createTestKey(organization, "app_admin", app, { name: CANARY });
	await organization.request("PUT", `/app/${app.appId}`, { key: organization.adminKey, body: { name: CANARY } });
	const listed = await organization.request("GET", "/bundle", {
		key: organization.adminKey,
		query: { app_id: app.appId },
	});
	const ids = [organization.orgId, organization.userId, organization.adminKeyId, app.uuid, app.appId, key.id];
	// A column that binds a row to the organization; free text may quote anything.
	const bound = new RegExp(`\\["\\w*(?:id|org|key|by)","(?:${ids.filter((id) => id !== app.appId).join("|")})"\\]`);
	const ownRows = async () => (await rowsOf(db)).filter((row) => bound.test(row));
	const before = await ownRows();
	return {
		organization,
		known: { texts: [...ids, "bystanders"], numbers: [bundle, channel] },
		async changes() {
			const after = await ownRows();
			const changed = before.filter((row) => !after.includes(row)).map((row) => `gone or changed: ${row}`);
			const added = after.filter((row) => !before.includes(row)).map((row) => `new: ${row}`);
			const now = await organization.request("GET", "/bundle", {
				key: organization.adminKey,
				query: { app_id: app.appId },
			});
			const same = JSON.stringify(now.body) === JSON.stringify(listed.body) && now.status === 200;
			return [...changed, ...added, ...(same ? [] : ["GET /bundle answers differently"])];
		},
	};
}

async function tablesOf(db: D1Database): Promise<string[]> {
	const { results } = await db
		.prepare(
			"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
		)
		.all<{ name: string }>();
	return results.map(({ name }) => name);
}

/** Every row of the database as text that begins with its table. */
async function rowsOf(db: D1Database): Promise<string[]> {
	const rows: string[] = [];
	const hidden = [...RESTLESS, ...FREE_TEXT];
	for (const table of await tablesOf(db)) {
		const { results } = await db.prepare(`SELECT * FROM "${table}"`).all<Record<string, unknown>>();
		for (const row of results) {
			rows.push(`${table} ${JSON.stringify(Object.entries(row).filter(([name]) => !hidden.includes(name)))}`);
		}
	}
	return rows;
}

/**
 * Columns whose text is for nobody. Hashes of files are public: devices check their downloads with
 * them.
 */
const PRIVATE_COLUMN = /hash|cipher|secret|token|sealed/;
const PUBLIC_TABLES = ["bundle_files"];

/** Everything that stands in a private column of the database. */
export async function privateTexts(db: D1Database): Promise<Set<string>> {
	const texts = new Set<string>();
	for (const table of await tablesOf(db)) {
		if (PUBLIC_TABLES.includes(table)) continue;
		const { results } = await db.prepare(`SELECT * FROM "${table}"`).all<Record<string, unknown>>();
		for (const row of results) {
			for (const [column, value] of Object.entries(row)) {
				if (PRIVATE_COLUMN.test(column) && typeof value === "string" && value.length > 20) texts.add(value);
			}
		}
	}
	return texts;
}

export const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
