/**
 * Every statement about an account holds the account and the one thing by itself, whatever the
 * layers above it have checked: run here directly, with one account's id beside another's thing.
 * And no request of a session that has ended since it was read writes anything.
 */
import type { CompiledQuery, Expression, SqlBool } from "kysely";
import { sql } from "kysely";
import { beforeEach, describe, expect, test } from "vitest";
import { SESSION_IDLE_MS } from "../../../src/authz/session";
import { accountDetails, changeEmail } from "../../../src/db/accounts";
import { openDb, query } from "../../../src/db/client";
import {
	deleteIdentities,
	hasAnotherWayIn,
	identitiesOf,
	identityExists,
	type WayOut,
} from "../../../src/db/identities";
import { type Membership, memberPermissionsAre, setMemberPermissions } from "../../../src/db/members";
import { conflict } from "../../../src/db/optimistic";
import {
	deletePasskey,
	type PasskeyRow,
	passkeyByCredential,
	passkeyExists,
	passkeyIs,
	passkeysOf,
	updatePasskey,
} from "../../../src/db/passkeys";
import { sessionStatement } from "../../../src/db/principals";
import {
	accountLogPage,
	deleteSession,
	deleteSessionByToken,
	deleteSessions,
	hasSession,
	markSessionSeen,
	sessionExists,
	sessionsOf,
} from "../../../src/db/sessions";
import {
	accountByCode,
	accountByEmail,
	accountByIdentity,
	accountByLink,
	accountIs,
	attemptExists,
	challengeOf,
	countTry,
	deleteAttempt,
	deleteLink,
	isRightCode,
	linkExists,
	markEmailVerified,
} from "../../../src/db/sign-in";
import type { AnyEndpoint } from "../../../src/http/endpoint";
import { databaseText } from "../support/database-text";
import { readThenWrite } from "../support/interleave";
import { keyOf, ofSessions } from "../support/isolation-cast";
import { SESSION_REQUESTS } from "../support/session-requests";
import { peopleOf } from "../support/sessions";
import { createWorld, NOW_MS, testEnv } from "../support/world";

interface Person {
	readonly user: string;
	readonly email: string;
	readonly org: string;
	readonly session: string;
	readonly passkey: string;
	/** The value of this person's hashes, secrets, credentials and subjects. */
	readonly mark: string;
}

const LATER_MS = NOW_MS + 1_000;

/** An account with one of everything. */
async function createPerson(): Promise<Person> {
	const [user, session, passkey, mark, org] = Array.from({ length: 5 }, () => crypto.randomUUID()) as [
		string,
		string,
		string,
		string,
		string,
	];
	const email = `${mark}@example.com`;
	const rows: readonly (readonly [table: string, Readonly<Record<string, string | number | null>>])[] = [
		["users", { id: user, email, created_at_ms: NOW_MS }],
		["organizations", { id: org, name: mark, created_by: user, created_at_ms: NOW_MS, updated_at_ms: NOW_MS }],
		[
			"role_bindings",
			{
				id: crypto.randomUUID(),
				user_id: user,
				role_name: "org_admin",
				scope_type: "org",
				org_id: org,
				created_at_ms: NOW_MS,
			},
		],
		[
			"sessions",
			{
				id: session,
				user_id: user,
				token_hash: mark,
				method: "code",
				user_agent: null,
				ip_address: null,
				created_at_ms: NOW_MS,
				last_seen_at_ms: NOW_MS,
				expires_at_ms: LATER_MS,
			},
		],
		[
			"passkeys",
			{
				id: passkey,
				user_id: user,
				credential_id: mark,
				public_key: "00",
				counter: 7,
				transports: "[]",
				name: mark,
				created_at_ms: NOW_MS,
			},
		],
		["sign_in_links", { token_hash: mark, user_id: user, created_at_ms: NOW_MS, expires_at_ms: LATER_MS }],
		["identities", { provider: "oidc", subject: mark, user_id: user, created_at_ms: NOW_MS }],
		[
			"sign_in_attempts",
			{
				token_hash: mark,
				kind: "email",
				user_id: user,
				email,
				secret: mark,
				created_at_ms: NOW_MS,
				expires_at_ms: LATER_MS,
			},
		],
		["account_log", { user_id: user, at_ms: NOW_MS, action: mark, request_id: mark }],
	];
	await testEnv.DB.batch(
		rows.map(([table, row]) => {
			const [names, values] = [Object.keys(row), Object.values(row)];
			const marks = names.map(() => "?").join(", ");
			return testEnv.DB.prepare(`INSERT INTO ${table} (${names.join(", ")}) VALUES (${marks})`).bind(...values);
		}),
	);
	return { user, email, org, session, passkey, mark };
}

const run = (statements: readonly CompiledQuery[]) => openDb(testEnv.DB, "first-primary").batch(statements);
const held = async (condition: Expression<SqlBool>) => {
	const [result] = await run([sql<{ held: number }>`SELECT ${condition} AS held`.compile(query)]);
	return (result?.rows[0] as { held: number } | undefined)?.held;
};
const rowsOf = async (statement: CompiledQuery) => (await run([statement]))[0]?.rows ?? [];

let ours: Person;
let theirs: Person;
beforeEach(async () => {
	[ours, theirs] = [await createPerson(), await createPerson()];
});

const passkeyOf = ({ user, passkey }: Person) => ({ ...({} as PasskeyRow), user_id: user, id: passkey, counter: 7 });
const yes = sql<boolean>`true`;

/** Changes by an account to one thing, which may belong to another account. */
const CHANGES: Readonly<Record<string, (of: Person, thing: Person) => CompiledQuery | readonly CompiledQuery[]>> = {
	updatePasskey: (of, { passkey }) => updatePasskey(of.user, passkey, { name: "changed" }),
	deletePasskey: (of, { passkey }) => deletePasskey(of.user, passkey),
	deleteSession: (of, { session }) => deleteSession(of.user, session),
	markSessionSeen: (of, { session }) => markSessionSeen(of.user, session, LATER_MS),
	"changeEmail, its token": (of, { session }) =>
		changeEmail({ userId: of.user, sessionId: session }, "changed@example.com", "changed", yes, NOW_MS, conflict).slice(
			2,
		),
	setMemberPermissions: (of, { org }) => setMemberPermissions(org as never, of.user, ["org.create"]),
};

/** Changes to everything that an account has. */
const CHANGES_OF_ALL: Readonly<Record<string, (of: Person) => CompiledQuery | readonly CompiledQuery[]>> = {
	deleteSessions: ({ user }) => deleteSessions(user, undefined),
	"deleteSessions but one": ({ user }) => deleteSessions(user, theirs.session),
	deleteSessionByToken: ({ mark }) => deleteSessionByToken(mark, yes),
	deleteIdentities: ({ user }) => deleteIdentities(user, "oidc"),
	deleteAttempt: ({ mark }) => deleteAttempt(mark),
	deleteLink: ({ mark }) => deleteLink(mark),
	countTry: ({ mark }) => countTry(mark, "email", NOW_MS),
	markEmailVerified: ({ user }) => markEmailVerified(user, undefined, NOW_MS),
	changeEmail: ({ user }) =>
		changeEmail({ userId: user, sessionId: "" }, "moved@example.com", "moved", yes, NOW_MS, conflict),
};

const TABLES = ["users", "sessions", "passkeys", "sign_in_links", "identities", "sign_in_attempts", "account_log"];
const everythingOf = async ({ user }: Person) =>
	JSON.stringify(
		(
			await testEnv.DB.batch(
				TABLES.map((table) =>
					testEnv.DB.prepare(`SELECT * FROM ${table} WHERE ${table === "users" ? "id" : "user_id"} = ?`).bind(user),
				),
			)
		).map(({ results }) => results),
	);

describe("a statement that changes rows", () => {
	test.each(Object.entries(CHANGES))("%s: changes only its account's one object", async (_, change) => {
		const before = await databaseText();
		await run([change(ours, theirs)].flat());
		expect(await databaseText(), "another's thing was changed").toBe(before);
		await run([change(ours, { ...ours, session: "", passkey: "", org: "" })].flat());
		expect(await databaseText(), "a thing was changed that the statement does not name").toBe(before);
		await run([change(ours, ours)].flat());
		expect(await databaseText(), "the control changes nothing").not.toBe(before);
	});

	test.each(Object.entries(CHANGES_OF_ALL))("%s: changes nothing of another account", async (_, change) => {
		const [own, other] = [await everythingOf(ours), await everythingOf(theirs)];
		await run([change(ours)].flat());
		expect(await everythingOf(theirs)).toBe(other);
		expect(await everythingOf(ours), "the control changes nothing").not.toBe(own);
	});

	test("countTry ignores attempts of another kind and ended ones", async () => {
		const before = await everythingOf(ours);
		await run([countTry(ours.mark, "code", NOW_MS), countTry(ours.mark, "email", LATER_MS)]);
		expect(await everythingOf(ours)).toBe(before);
	});

	test("changeEmail and deleteSessions keep the named session", async () => {
		await run(
			changeEmail({ userId: ours.user, sessionId: ours.session }, "new@example.com", "new", yes, NOW_MS, conflict),
		);
		await run([deleteSessions(ours.user, ours.session)]);
		expect(await rowsOf(sessionsOf(ours.user, NOW_MS))).toMatchObject([{ id: ours.session }]);
	});

	test("markEmailVerified ends no session of a verified account or of a signed-in verifier", async () => {
		await run(markEmailVerified(ours.user, ours.mark, NOW_MS));
		await run(markEmailVerified(ours.user, theirs.mark, NOW_MS));
		expect(await rowsOf(sessionsOf(ours.user, NOW_MS))).toHaveLength(1);
		expect(await rowsOf(passkeysOf(ours.user))).toHaveLength(1);
		// Another's session, and one that is over, are no proof.
		await run(markEmailVerified(theirs.user, ours.mark, NOW_MS));
		expect(await rowsOf(sessionsOf(theirs.user, NOW_MS))).toEqual([]);
		const third = await createPerson();
		await run(markEmailVerified(third.user, third.mark, LATER_MS));
		expect(await rowsOf(passkeysOf(third.user))).toEqual([]);
	});
});

/** Conditions that hold of the right pair alone. */
const GUARDS: Readonly<Record<string, (of: Person, thing: Person) => Expression<SqlBool>>> = {
	passkeyIs: (of, thing) => passkeyIs({ ...passkeyOf(thing), user_id: of.user }),
	passkeyExists: (of, { passkey }) => passkeyExists(of.user, passkey),
	sessionExists: (of, { session }) => sessionExists(of.user, session),
	hasSession: (of, { mark }) => hasSession(of.user, mark, NOW_MS),
	accountIs: (of, { email }) => accountIs({ id: of.user, email }),
	isRightCode: (of, { mark, email }) =>
		isRightCode(mark, "email", ["another", mark], NOW_MS, { userId: of.user, email }) as Expression<SqlBool>,
	"isRightCode for another address": (of, { email }) =>
		isRightCode(of.mark, "email", [of.mark], NOW_MS, { userId: of.user, email }) as Expression<SqlBool>,
};

describe("a condition", () => {
	test.each(Object.entries(GUARDS))("%s: holds for its account and object only", async (_, guard) => {
		expect(await held(guard(ours, theirs))).toBe(0);
		expect(await held(guard(ours, ours))).toBe(1);
	});

	test("about a link, an attempt or a session holds until its expiry", async () => {
		expect(await held(linkExists(ours.mark, NOW_MS))).toBe(1);
		expect(await held(linkExists(ours.mark, LATER_MS))).toBe(0);
		expect(await held(linkExists("another", NOW_MS))).toBe(0);
		expect(await held(attemptExists(ours.mark))).toBe(1);
		expect(await held(attemptExists("another"))).toBe(0);
		expect(await held(hasSession(ours.user, ours.mark, LATER_MS))).toBe(0);
		expect(await held(isRightCode(ours.mark, "email", [ours.mark], LATER_MS) as Expression<SqlBool>)).toBe(0);
		expect(await held(isRightCode(ours.mark, "code", [ours.mark], NOW_MS) as Expression<SqlBool>)).toBe(0);
		expect(await held(isRightCode(ours.mark, "email", ["another"], NOW_MS) as Expression<SqlBool>)).toBe(0);
	});

	test("about a provider or the last sign-in method holds for its account only", async () => {
		await testEnv.DB.prepare("DELETE FROM identities WHERE user_id = ?").bind(theirs.user).run();
		expect(await held(identityExists(ours.user, "oidc"))).toBe(1);
		expect(await held(identityExists(ours.user, "github"))).toBe(0);
		expect(await held(identityExists(theirs.user, "oidc"))).toBe(0);
		const [both, none] = [
			{ passkeys: true, providers: ["oidc", "github"] },
			{ passkeys: false, providers: [] },
		];
		const left = (user: Person, ways: typeof both, gone: WayOut) => held(hasAnotherWayIn(user.user, ways, gone));
		expect(await left(ours, both, { provider: "oidc" })).toBe(1);
		expect(await left(ours, both, { passkey: ours.passkey })).toBe(1);
		expect(await left(ours, { ...both, passkeys: false }, { provider: "oidc" })).toBe(0);
		expect(await left(ours, { ...both, providers: ["github"] }, { passkey: ours.passkey })).toBe(0);
		expect(await left(ours, none, { provider: "github" })).toBe(0);
		// Theirs is the passkey alone.
		expect(await left(theirs, both, { passkey: theirs.passkey })).toBe(0);
		expect(await left(theirs, both, { passkey: ours.passkey })).toBe(1);
		await testEnv.DB.prepare("DELETE FROM passkeys WHERE user_id = ?").bind(ours.user).run();
		expect(await left(ours, both, { provider: "oidc" })).toBe(0);
		expect(await left(ours, both, { provider: "github" })).toBe(1);
	});

	test("passkeyIs detects a signature, memberPermissionsAre a change", async () => {
		expect(await held(passkeyIs({ ...passkeyOf(ours), counter: 8 }))).toBe(0);
		const member = { ...({} as Membership), user_id: ours.user, global_permissions: "[]" };
		expect(await held(memberPermissionsAre(member))).toBe(1);
		expect(await held(memberPermissionsAre({ ...member, user_id: "another" }))).toBe(0);
		expect(await held(memberPermissionsAre({ ...member, global_permissions: '["org.create"]' }))).toBe(0);
	});
});

/** Reads, and what of an account's rows they give back. */
const READS: Readonly<Record<string, readonly [read: (of: Person) => CompiledQuery, shown: (of: Person) => object]>> = {
	accountDetails: [
		({ mark }) => accountDetails(mark, ["org_super_admin"], NOW_MS),
		({ user, email }) => ({ id: user, email, passkeys: 1 }),
	],
	sessionStatement: [
		({ mark }) => sessionStatement(mark, NOW_MS),
		({ user, session }) => ({ id: session, user_id: user }),
	],
	passkeysOf: [({ user }) => passkeysOf(user), ({ passkey }) => ({ id: passkey })],
	identitiesOf: [({ user }) => identitiesOf(user), () => ({ provider: "oidc", linked_at_ms: NOW_MS })],
	passkeyByCredential: [({ mark }) => passkeyByCredential(mark), ({ user, email }) => ({ user_id: user, email })],
	sessionsOf: [({ user }) => sessionsOf(user, NOW_MS), ({ session }) => ({ id: session })],
	accountLogPage: [({ user }) => accountLogPage(user, 9, 0), ({ mark }) => ({ action: mark })],
	accountByEmail: [({ email }) => accountByEmail(email), ({ user, email }) => ({ id: user, email })],
	accountByCode: [({ mark }) => accountByCode(mark, yes), ({ user, email }) => ({ id: user, email })],
	accountByLink: [({ mark }) => accountByLink(mark, NOW_MS), ({ user, email }) => ({ id: user, email })],
	accountByIdentity: [({ mark }) => accountByIdentity("oidc", mark), ({ user, email }) => ({ id: user, email })],
	challengeOf: [
		({ mark }) => challengeOf(mark, "email", NOW_MS),
		({ user, mark }) => ({ user_id: user, secret: mark }),
	],
};

describe("a read", () => {
	test.each(Object.entries(READS))("%s: shows only its account", async (_, [read, shown]) => {
		for (const person of [ours, theirs]) expect(await rowsOf(read(person))).toMatchObject([shown(person)]);
	});

	test("shows nothing that has ended", async () => {
		const idle = NOW_MS + SESSION_IDLE_MS;
		await testEnv.DB.prepare("UPDATE sessions SET expires_at_ms = ? WHERE id = ?")
			.bind(idle * 2, theirs.session)
			.run();
		for (const read of [
			sessionsOf(ours.user, LATER_MS),
			sessionsOf(theirs.user, idle),
			sessionStatement(ours.mark, LATER_MS),
			sessionStatement(theirs.mark, idle),
			accountByLink(ours.mark, LATER_MS),
			challengeOf(ours.mark, "email", LATER_MS),
			challengeOf(ours.mark, "passkey", NOW_MS),
			accountByIdentity("github", ours.mark),
		]) {
			expect(await rowsOf(read)).toEqual([]);
		}
	});
});

describe("a session that ends between the decision and the write", () => {
	const writing = (ofSessions as readonly AnyEndpoint[])
		.filter((endpoint) => endpoint.method !== "GET")
		.map((endpoint) => [keyOf(endpoint), endpoint] as const);

	test.each(writing)("%s: writes nothing", async (name, { method }) => {
		const world = await createWorld();
		const prepared = await SESSION_REQUESTS[name]?.(peopleOf(world));
		if (prepared === undefined) throw new Error(`add ${name} to test/worker/support/session-requests.ts`);
		const { path, ...options } = prepared;
		let before = "";
		const answer = await readThenWrite(
			world,
			(racing) => racing.request(method, path, options),
			async () => {
				await testEnv.DB.exec("DELETE FROM sessions");
				before = await databaseText();
				return { status: 200, body: undefined, headers: new Headers(), trips: undefined };
			},
		);
		expect(answer).toMatchObject({ status: 401, body: { error: "invalid_session" } });
		expect(await databaseText()).toBe(before);
	});
});
