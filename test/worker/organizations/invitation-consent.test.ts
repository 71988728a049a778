/**
 * An existing account joins an organization only from its own session or with a mailed code. The
 * inviter has the link as well, and gains nothing by opening it.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { databaseText } from "../support/database-text";
import { readThenWrite } from "../support/interleave";
import { invitedToken } from "../support/people";
import { askForCode, codeFor, OWN_PAGE, sessionOf, sessionTokenOf, signIn } from "../support/sessions";
import { createWorld, type World } from "../support/world";

let world: World;
/** The world of a person with their own account and organization. */
let victim: World;
let token: string;

beforeEach(async () => {
	world = await createWorld();
	victim = await createWorld();
	token = await invite(victim.adminEmail);
});

const invite = (email: string) => invitedToken(world, email);
const accept = (
	fields: object = {},
	headers: Readonly<Record<string, string>> = {},
	via: Pick<World, "request"> = world,
) => via.request("POST", "/invitation/accept", { headers, body: { token, ...fields } });
const memberIds = async () =>
	(await world.request("GET", "/organization/members", { key: world.adminKey, query: { orgId: world.orgId } })).body
		.filter(({ is_tmp }: { is_tmp: boolean }) => !is_tmp)
		.map(({ uid }: { uid: string }) => uid);
const REQUIRED = { status: 401, body: { error: "sign_in_required" } };
const FAILED = { status: 401, body: { error: "sign_in_failed" } };

describe("an invitation of an existing account", () => {
	test("gives the inviter who opens the link no membership, no key and no session", async () => {
		const inviter = await signIn(world);
		const before = await databaseText();
		expect(await accept()).toMatchObject(REQUIRED);
		const signingIn = await accept({ sign_in: true }, OWN_PAGE);
		expect(signingIn).toMatchObject(REQUIRED);
		expect(signingIn.headers.get("set-cookie")).toBeNull();
		expect(await accept({ sign_in: true }, inviter.headers)).toMatchObject(REQUIRED);
		expect(await databaseText()).toBe(before);
	});

	test("is accepted from the account's own session, on the service's own pages", async () => {
		const { headers } = await signIn(victim);
		expect((await accept({}, { ...headers, "sec-fetch-site": "cross-site" })).status).toBe(403);
		const answer = await accept({ sign_in: true }, headers);
		expect(answer).toMatchObject({ status: 201, trips: 2, body: { uid: victim.userId, signed_in: true } });
		expect(await memberIds()).toContain(victim.userId);
		const key = answer.body.api_key.key;
		expect((await world.request("GET", "/organization", { key })).body).toMatchObject([{ id: world.orgId }]);
		const { body: log } = await world.request("GET", "/organization/audit", {
			key: world.adminKey,
			query: { orgId: world.orgId, action: "invitation.accept" },
		});
		expect(log).toMatchObject([{ details: { proven_by: "session" } }]);
	});

	test("is accepted with a mailed code, which also verifies the address and may sign in", async () => {
		const attempt = await askForCode(victim, victim.adminEmail);
		const answer = await accept({ attempt, code: codeFor(victim, victim.adminEmail), sign_in: true }, OWN_PAGE);
		expect(answer).toMatchObject({ status: 201, trips: 2, body: { uid: victim.userId, signed_in: true } });
		const mine = sessionOf(sessionTokenOf(answer.headers) ?? "");
		expect((await world.request("GET", "/organization", mine)).body).toHaveLength(2);
		// The code was used.
		token = await invite("someone.else@example.com");
		const again = await world.request("POST", "/sign-in/code/verify", {
			headers: OWN_PAGE,
			body: { attempt, code: codeFor(victim, victim.adminEmail) },
		});
		expect(again).toMatchObject(FAILED);
	});

	test("rejects codes of another account, and allows five wrong ones", async () => {
		const own = await askForCode(world, world.adminEmail);
		expect(await accept({ attempt: own, code: codeFor(world, world.adminEmail) })).toMatchObject(FAILED);
		const attempt = await askForCode(victim, victim.adminEmail);
		const code = codeFor(victim, victim.adminEmail) ?? "";
		const wrong = code === "000000" ? "000001" : "000000";
		for (let tries = 0; tries < 5; tries++) expect(await accept({ attempt, code: wrong })).toMatchObject(FAILED);
		expect(await accept({ attempt, code })).toMatchObject(FAILED);
		expect(await memberIds()).not.toContain(victim.userId);
	});

	test("is not accepted if the session ends or the attempt is used at the same moment", async () => {
		const session = await signIn(victim);
		const late = await readThenWrite(
			world,
			(via) => accept({}, session.headers, via),
			() => world.request("POST", "/sign-out", session),
		);
		expect(late).toMatchObject(REQUIRED);
		const attempt = await askForCode(victim, victim.adminEmail);
		const code = codeFor(victim, victim.adminEmail);
		const used = await readThenWrite(
			world,
			(via) => accept({ attempt, code }, {}, via),
			() => world.request("POST", "/sign-in/code/verify", { headers: OWN_PAGE, body: { attempt, code } }),
		);
		expect(used).toMatchObject(FAILED);
		expect(await memberIds()).not.toContain(victim.userId);
	});
});

test("an invitation does not reveal to callers without its token whether the address has an account", async () => {
	const guessed = token.replace(/.{8}$/, "00000000");
	token = guessed;
	const existing = await accept();
	await invite("nobody.yet@example.com");
	token = guessed;
	const absent = await accept();
	expect(existing.status).toBe(404);
	expect({ ...existing.body, requestId: "" }).toEqual({ ...absent.body, requestId: "" });
});

test("an invitation of an address without an account needs the link only", async () => {
	token = await invite("new.person@example.com");
	expect(await accept({ sign_in: true }, OWN_PAGE)).toMatchObject({ status: 201, body: { signed_in: true } });
});
