/**
 * Random histories of grants: keys are created and changed, members get and lose roles on apps and
 * channels, are lowered and raised, custom roles are defined, changed and replaced, a group gets
 * and loses people and roles, and channels are deleted. A small model says which grant is refused
 * because its granter holds less, and what every key and person may do afterwards; the API must
 * agree after every step. So no sequence of grants ends above a granter.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CONTRACT } from "../../unit/support/principals";
import { signIn } from "../support/sessions";
import { createTestApp, createTestMember, createWorld } from "../support/world";

const ROLES = [
	...(["org_admin", "org_member"] as const),
	...(["app_admin", "app_developer", "app_reader"] as const),
	...(["channel_admin", "channel_developer", "channel_reader"] as const),
	...(["custom-app", "custom-channel"] as const),
] as const;
type Role = (typeof ROLES)[number] | "org_super_admin" | "org_billing_admin";
const UNIVERSE = ["app.read", ...CONTRACT.channel_developer];
/** The custom roles of the history that is replayed, with their permissions. */
const custom = new Map<Role, readonly string[]>();
const permissionsOf = (role: Role): readonly string[] =>
	custom.get(role) ?? (role.startsWith("custom-") ? [] : CONTRACT[role as keyof typeof CONTRACT]);
const exists = (role: Role) => custom.has(role) || !role.startsWith("custom-");

/**
 * An app has the number of its place in `apps`, a channel the name of one that exists or existed.
 */
interface Held {
	readonly role: Role;
	readonly app?: number;
	readonly channel?: string;
	/** The id of a member's binding. */
	readonly id?: string;
}
interface Person {
	readonly email: string;
	role: Role;
	held: Held[];
	readonly credential: object;
	readonly userId: string;
}
interface Key {
	readonly id: string;
	readonly text: string;
	readonly owner: Person;
	held: Held[];
}

const isAt = ({ app, channel }: Held, at: Pick<Held, "app" | "channel">) =>
	app === undefined || (app === at.app && (channel === undefined || channel === at.channel));
const has = (held: readonly Held[], permission: string, at: Pick<Held, "app" | "channel">) =>
	held.some((binding) => isAt(binding, at) && permissionsOf(binding.role).includes(permission));
/** The group of the history that is replayed. */
const group = { id: "", members: new Set<Person>(), held: [] as Held[] };
const ofPerson = (person: Person): Held[] => [
	{ role: person.role },
	...person.held,
	...(group.members.has(person) ? group.held : []),
];
/** The key holds it, and so does the account of the key on the whole organization. */
const grants = (key: Key, permission: string, at: Pick<Held, "app" | "channel">) =>
	has(key.held, permission, at) && permissionsOf(key.owner.role).includes(permission);
const mayGrant = (key: Key, managing: string, { role, ...at }: Held) =>
	exists(role) && grants(key, managing, {}) && permissionsOf(role).every((permission) => grants(key, permission, at));

/** A loss of the owner takes from their keys the roles there that hold what the owner does not. */
function lower(keys: readonly Key[], owner: Person, isThere: (held: Held) => boolean): void {
	const isAllowed = ({ role, ...at }: Held) =>
		permissionsOf(role).every((permission) => has(ofPerson(owner), permission, at));
	for (const key of keys.filter((candidate) => candidate.owner === owner)) {
		const lowered = key.held.map((held) => (held.app === undefined && !isAllowed(held) ? { role: owner.role } : held));
		key.held = lowered.filter((held) => held.app === undefined || !isThere(held) || isAllowed(held));
	}
}

/** A holder that has the other role there already keeps that binding. */
function replaced(held: readonly Held[], name: Role, by: Role): Held[] {
	const kept = held.filter(({ role }) => role !== name);
	const isKept = ({ app, channel }: Held) =>
		kept.some((other) => other.role === by && other.app === app && other.channel === channel);
	return [...kept, ...held.filter((one) => one.role === name && !isKept(one)).map((one) => ({ ...one, role: by }))];
}

const step = fc.record({
	kind: fc.constantFrom(
		...(["create", "create", "change", "grant", "grant", "revoke", "lower", "raise", "delete"] as const),
		...(["define", "define", "replace"] as const),
		...(["join", "join", "leave", "equip", "equip", "strip"] as const),
	),
	permissions: fc.subarray(UNIVERSE, { minLength: 1 }),
	by: fc.nat(),
	to: fc.nat(),
	role: fc.constantFrom(...ROLES),
	app: fc.constantFrom(0, 1),
	channel: fc.constantFrom("qa", "beta"),
	pick: fc.nat(),
});

type Step = typeof step extends fc.Arbitrary<infer One> ? One : never;

/** By the key of the administrator, to the administrator. */
const FIRST: Omit<Step, "kind"> = {
	by: 1,
	to: 0,
	role: "channel_developer",
	app: 0,
	channel: "qa",
	pick: 0,
	permissions: UNIVERSE,
};

describe("histories of grants", () => {
	test("never lift anybody above a granter, and the API agrees with the model", { timeout: 300_000 }, async () => {
		await fc.assert(
			fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 14 }), async (steps) => {
				await replay(steps);
			}),
			{
				numRuns: 12,
				endOnFailure: true,
				examples: [
					// A key of the administrator keeps nothing on a channel that the lowered account does not hold
					// there.
					[
						[
							{ ...FIRST, kind: "create" },
							{ ...FIRST, kind: "lower" },
						],
					],
					[
						[
							{ ...FIRST, kind: "grant" },
							{ ...FIRST, kind: "create" },
							{ ...FIRST, kind: "lower" },
							{ ...FIRST, kind: "revoke" },
						],
					],
					// It keeps what a role of the account's group covers, until that role, or the place in the
					// group, ends.
					...(["leave", "strip"] as const).map((last): [Step[]] => [
						[
							{ ...FIRST, kind: "equip", by: 0 },
							{ ...FIRST, kind: "join", by: 0 },
							{ ...FIRST, kind: "create" },
							{ ...FIRST, kind: "lower" },
							{ ...FIRST, kind: last, by: 0 },
						],
					]),
					// It keeps what a custom role of the account covers, until that role loses it, or is replaced
					// by one without it.
					...[{ kind: "define" as const, permissions: ["app.read"] }, { kind: "replace" as const }].map(
						(last): [Step[]] => [
							[
								{ ...FIRST, kind: "define", by: 0 },
								{ ...FIRST, kind: "grant", by: 0, role: "custom-app" },
								{ ...FIRST, kind: "create" },
								{ ...FIRST, kind: "lower" },
								{ ...FIRST, by: 0, ...last },
							],
						],
					),
				],
			},
		);
	});
});

async function replay(steps: readonly Step[]): Promise<void> {
	custom.clear();
	group.members.clear();
	group.held = [];
	const world = await createWorld();
	const apps = [await createTestApp(world), await createTestApp(world, "second")];
	const channels = new Map<string, { id: number; name: string; emulator: boolean }>();
	let named = 0;
	async function makeChannel(app: number, channel: string): Promise<void> {
		const name = `${channel}-${++named}`;
		const { body } = await world.request("POST", "/channel", {
			key: world.adminKey,
			body: { app_id: apps[app]?.appId, channel: name, allow_emulator: true },
		});
		channels.set(`${app} ${channel}`, { id: body.id, name, emulator: true });
	}
	for (const app of [0, 1]) for (const channel of ["qa", "beta"]) await makeChannel(app, channel);
	const made = await world.request("POST", "/organization/groups", {
		key: world.adminKey,
		body: { orgId: world.orgId, name: "Testers" },
	});
	group.id = made.body.id;
	const owner: Person = { email: world.adminEmail, role: "org_super_admin", held: [], credential: {}, userId: "" };
	const people: Person[] = [];
	const keys: Key[] = [{ id: "", text: world.adminKey, owner, held: [{ role: "org_super_admin" }] }];
	for (const role of ["org_admin", "org_billing_admin"] as const) {
		const { email, key } = await createTestMember(world, role);
		const query = { orgId: world.orgId };
		const { body } = await world.request("GET", "/organization/members", { key: world.adminKey, query });
		const userId = body.find((member: { email: string }) => member.email === email).uid;
		const person: Person = { email, role, held: [], credential: await signIn(world, email), userId };
		people.push(person);
		keys.push({ ...key, owner: person, held: [{ role }] });
	}
	const [admin] = people;
	if (admin === undefined) throw new Error("no member");

	const channelOf = ({ app, channel }: Pick<Held, "app" | "channel">) => channels.get(`${app} ${channel}`);
	const heldBy = (role: Role, app: number, channel: string): Held =>
		role.startsWith("org_") ? { role } : /^(app_|custom-app)/.test(role) ? { role, app } : { role, app, channel };
	const uuidOf = (app: number) => apps[app]?.uuid ?? "";
	const appIdOf = (app: number) => apps[app]?.appId ?? "";
	const asBinding = (held: Held) => ({
		role_name: held.role,
		org_id: world.orgId,
		scope_type: held.app === undefined ? "org" : held.channel === undefined ? "app" : "channel",
		...(held.app === undefined ? {} : { app_id: uuidOf(held.app) }),
		...(held.channel === undefined ? {} : { channel_id: channelOf(held)?.id }),
	});

	for (const { kind, by, to, role, app, channel, pick, permissions } of steps) {
		const granter = keys[by % keys.length] as Key;
		const { text: key } = granter;
		const wanted = heldBy(role, app, channel);
		const said = `${kind} by ${JSON.stringify(granter.held)} of ${granter.owner.role}: ${JSON.stringify(wanted)}`;
		if (kind === "create") {
			const { status, body } = await world.request("POST", "/apikey", {
				key,
				query: { org_id: world.orgId },
				body: { name: "made", expires_at: "2026-12-01T00:00:00Z", bindings: [asBinding(wanted)] },
			});
			expect(status === 201, `${said} ${JSON.stringify(body)}`).toBe(mayGrant(granter, "org.manage_apikeys", wanted));
			if (status === 201) keys.push({ id: body.id, text: body.key, owner: granter.owner, held: [wanted] });
		} else if (kind === "change") {
			const changed = keys.slice(3)[to % Math.max(keys.length - 3, 1)];
			if (changed === undefined || changed === granter) continue;
			const isAllowed =
				mayGrant(granter, "org.manage_apikeys", wanted) &&
				changed.held.every((held) => mayGrant(granter, "org.manage_apikeys", held));
			const { status, body } = await world.request("PUT", `/apikey/${changed.id}`, {
				key,
				body: { bindings: [asBinding(wanted)] },
			});
			expect(status === 200, `${said} ${JSON.stringify(body)}`).toBe(isAllowed);
			if (status === 200) changed.held = [wanted];
		} else if (kind === "grant" && wanted.app !== undefined) {
			const person = people[to % people.length] as Person;
			const place = wanted.channel === undefined ? {} : { channel: channelOf(wanted)?.name };
			const { status, body } = await world.request("POST", "/organization/members/bindings", {
				key,
				body: { orgId: world.orgId, email: person.email, role_name: role, app_id: apps[app]?.appId, ...place },
			});
			expect(status < 300, `${said} ${JSON.stringify(body)}`).toBe(mayGrant(granter, "org.update_user_roles", wanted));
			if (status === 201) person.held.push({ ...wanted, id: body.id });
		} else if (kind === "revoke") {
			const person = people[to % people.length] as Person;
			const revoked = person.held[pick % Math.max(person.held.length, 1)];
			if (revoked?.id === undefined) continue;
			const { status, body } = await world.request("DELETE", "/organization/members/bindings", {
				key,
				query: { orgId: world.orgId, id: revoked.id },
			});
			const { id: _, ...held } = revoked;
			expect(status === 200, `${said} ${JSON.stringify(body)}`).toBe(mayGrant(granter, "org.update_user_roles", held));
			if (status !== 200) continue;
			person.held = person.held.filter((other) => other !== revoked);
			lower(keys, person, (other) => isAt(held, other));
		} else if (kind === "lower" || kind === "raise") {
			const after: Role = kind === "lower" ? "org_member" : "org_admin";
			const { status } = await world.request("PUT", "/organization/members", {
				key: world.adminKey,
				body: { orgId: world.orgId, email: admin.email, role: after },
			});
			expect(status).toBe(200);
			const isLower = admin.role === "org_admin" && after === "org_member";
			admin.role = after;
			if (isLower) lower(keys, admin, () => true);
		} else if (kind === "join" || kind === "leave") {
			const person = people[to % people.length] as Person;
			if (kind === "leave" && !group.members.has(person)) continue;
			const path = `/organization/groups/${group.id}/members`;
			const isAllowed =
				grants(granter, "org.update_user_roles", {}) &&
				group.held.every(({ id: _, ...held }) => mayGrant(granter, "org.update_user_roles", held));
			const { status, body } = await (kind === "join"
				? world.request("POST", path, { key, body: { email: person.email } })
				: world.request("DELETE", `${path}/${person.userId}`, { key }));
			expect(status < 300, `${said} ${JSON.stringify(body)}`).toBe(isAllowed);
			if (status >= 300) continue;
			if (kind === "join") group.members.add(person);
			else {
				group.members.delete(person);
				lower(keys, person, (other) => group.held.some((held) => isAt(held, other)));
			}
		} else if (kind === "equip" && wanted.app !== undefined) {
			const place = wanted.channel === undefined ? {} : { channel: channelOf(wanted)?.name };
			const { status, body } = await world.request("POST", `/organization/groups/${group.id}/bindings`, {
				key,
				body: { role_name: role, app_id: appIdOf(app), ...place },
			});
			expect(status < 300, `${said} ${JSON.stringify(body)}`).toBe(mayGrant(granter, "org.update_user_roles", wanted));
			if (status === 201) group.held.push({ ...wanted, id: body.id });
		} else if (kind === "strip") {
			const taken = group.held[pick % Math.max(group.held.length, 1)];
			if (taken?.id === undefined) continue;
			const path = `/organization/groups/${group.id}/bindings/${taken.id}`;
			const { status, body } = await world.request("DELETE", path, { key });
			const { id: _, ...held } = taken;
			expect(status === 200, `${said} ${JSON.stringify(body)}`).toBe(mayGrant(granter, "org.update_user_roles", held));
			if (status !== 200) continue;
			group.held = group.held.filter((other) => other !== taken);
			for (const person of group.members) lower(keys, person, (other) => isAt(held, other));
		} else if (kind === "define" || kind === "replace") {
			const name: Role = pick % 2 === 0 ? "custom-app" : "custom-channel";
			const before = custom.get(name);
			const inScope = (permission: string) => name === "custom-app" || CONTRACT.channel_admin.includes(permission);
			const successor: Role = name === "custom-app" ? "app_reader" : "channel_reader";
			const after = kind === "replace" ? CONTRACT[successor] : permissions.filter(inScope);
			if (after.length === 0 || (kind === "replace" && before === undefined)) continue;
			const gains = before !== undefined && after.some((permission) => !before.includes(permission));
			const isAllowed =
				[...(before ?? []), ...after, "org.update_user_roles"].every((permission) => grants(granter, permission, {})) &&
				// All other keys expire.
				(!gains || key === world.adminKey);
			const fields = { orgId: world.orgId, name };
			const whole = { ...fields, title: name, scope_type: name.slice("custom-".length), permissions: after };
			const { status, body } = await (kind === "replace"
				? world.request("DELETE", "/organization/roles", { key, query: { ...fields, replace_with: successor } })
				: before === undefined
					? world.request("POST", "/organization/roles", { key, body: whole })
					: world.request("PUT", "/organization/roles", { key, body: { ...fields, permissions: after } }));
			expect(status < 300, `${said} ${name} ${after} ${JSON.stringify(body)}`).toBe(isAllowed);
			if (status >= 300) continue;
			custom.set(name, after);
			if (before?.some((permission) => !after.includes(permission)) === true)
				for (const person of people) {
					const places = ofPerson(person).filter((held) => held.role === name);
					lower(keys, person, (held) => places.some((place) => isAt(place, held)));
				}
			if (kind === "replace") {
				custom.delete(name);
				for (const holder of [...keys, ...people, group]) holder.held = replaced(holder.held, name, successor);
			}
		} else if (kind === "delete") {
			const { status } = await world.request("DELETE", "/channel", {
				key: world.adminKey,
				query: { app_id: appIdOf(app), channel: channelOf({ app, channel })?.name ?? "" },
			});
			expect(status).toBe(200);
			await makeChannel(app, channel);
			const isGone = (held: Held) => held.app === app && held.channel === channel;
			for (const holder of [...keys, ...people, group]) holder.held = holder.held.filter((held) => !isGone(held));
		}
		await compare();
	}

	/**
	 * Asks what everybody may do now: read the app, read each channel, and change the settings of
	 * each.
	 */
	async function compare(): Promise<void> {
		const callers = [
			...keys.map((key) => ({ held: key.held, credential: { key: key.text } })),
			...people.map((person) => ({ held: ofPerson(person), credential: person.credential })),
		];
		for (const { held, credential } of callers) {
			for (const app of [0, 1]) {
				const appId = appIdOf(app);
				const read = await world.request("GET", `/app/${appId}`, credential);
				expect(read.status === 200, `app of ${JSON.stringify(held)}`).toBe(has(held, "app.read", { app }));
				for (const channel of ["qa", "beta"]) {
					const found = channelOf({ app, channel });
					if (found === undefined) throw new Error("no channel");
					const said = `${app} ${channel} of ${JSON.stringify(held)}`;
					const shown = await world.request("GET", "/channel", {
						...credential,
						query: { app_id: appId, channel: found.name },
					});
					expect(shown.status === 200, `read ${said}`).toBe(has(held, "channel.read", { app, channel }));
					const changed = await world.request("POST", "/channel", {
						...credential,
						body: { app_id: appId, channel: found.name, allow_emulator: !found.emulator },
					});
					const mayChange = has(held, "channel.update_settings", { app, channel });
					expect(changed.status === 200, `change ${said}`).toBe(mayChange);
					if (changed.status === 200) found.emulator = !found.emulator;
				}
			}
		}
	}
}
