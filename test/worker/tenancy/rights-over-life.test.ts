/**
 * Random histories of every right that a key, a link, a name, a row or a claim grants. After each
 * event every right is used through its own endpoint, and works exactly until the first event that
 * the table names for it. Each history begins with all rights, which all work.
 *
 * `GRANTS` below is the table: each right, the file that grants it and the events that end it. `a >
 * b` is b after a.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { IS_PROOF } from "../../proof-sample";
import {
	app,
	jobOf,
	nextRequest,
	number,
	offered,
	prepareJobs,
	promote,
	REPOSITORY,
	upload,
	world,
} from "../previews/publisher-scene";
import { locationOf, register, tusCreate, tusHead, zipName } from "../support/bytes";
import { invitedToken } from "../support/people";
import { signIn, signInByPasskey, type TestSession } from "../support/sessions";
import { type Answer, createTestKey, createTestMember, setTestChannel, uploadTestBundle } from "../support/world";

const RUNS = IS_PROOF ? 60 : 10;
const HOUR_MS = 3_600_000;
/** Later than every cache of devices' answers and of preview pages. */
const CACHED_MS = 6_000;

/** Events that end everything of the app. */
const APP = ["appDeleted", "organizationDeleted"] as const;
/** Those that end the key `ci`. */
const KEY = [
	"keyRevoked",
	"keyExpired",
	"keyAddresses",
	"keyLowered",
	"policyHashed",
	"appTransferred",
	...APP,
] as const;
const JOB = ["hourPassed", "publisherDeleted", "appTransferred", ...APP] as const;

const GRANTS = {
	"secret of a key": ["src/features/keys/create.ts", ...KEY, "keyReplaced", "keyRegenerated > hourPassed"],
	"upload link of a key": ["src/storage/links.ts", ...KEY, "keyReplaced", "hourPassed"],
	"resumable upload": ["src/features/bundles/tus-create.ts", ...KEY, "keyReplaced", "keyRegenerated > hourPassed"],
	"key of a job": ["src/features/publishers/exchange.ts", ...JOB],
	"upload link of a job": ["src/storage/links.ts", ...JOB, "pullRequestClosed"],
	"page of a preview": ["src/features/previews/page.ts", "pageReplaced", "appTransferred", ...APP],
	"link to a preview": [
		"src/features/previews/links.ts",
		"pageReplaced",
		"pullRequestClosed",
		"appTransferred",
		...APP,
	],
	"name of a preview": ["src/features/previews/devices.ts", "prefixChanged", "pullRequestClosed", ...APP],
	"name of a channel": ["src/domain/updates/decision.ts", "channelClosed", "channelDeleted", ...APP],
	"choice of a channel": ["src/features/updates/channel-self.ts", "channelClosed", "channelDeleted", ...APP],
	"download link": ["src/storage/links.ts", ...APP],
	"override of a device": ["src/features/devices/routes.ts", "overrideRemoved", ...APP],
	"approval of a proposal": [
		"src/features/channels/approvals.ts",
		"approverLowered",
		"approverSignedOut",
		"protectionEnded",
		"protectedDeleted",
		"hourPassed",
		"proposerRevoked",
		"appTransferred",
		...APP,
	],
	session: ["src/features/accounts/sessions.ts", "signedOut", "memberRemoved", "appTransferred", ...APP],
	invitation: [
		"src/features/organizations/invite.ts",
		"inviterLowered",
		"inviterRemoved",
		"invitationWithdrawn",
		"organizationDeleted",
	],
} as const satisfies Record<string, readonly [string, ...string[]]>;
type Right = keyof typeof GRANTS;
/** An approval can be used once, so it ends each history. */
const ONCE = "approval of a proposal";
type Uses = Readonly<Record<Exclude<Right, typeof ONCE>, () => Promise<boolean>>>;

const isEnded = (right: Right, history: readonly string[]): boolean => {
	const [, ...events] = GRANTS[right];
	return events.some((event) => {
		// A transferred app is not the former organization's any more.
		const transferred = history.indexOf("appTransferred");
		if (event === "organizationDeleted" && right !== "invitation" && transferred !== -1)
			return history.indexOf(event) > -1 && history.indexOf(event) < transferred;
		const [first = "", then] = event.split(" > ");
		if (then === undefined) return history.includes(first);
		return history.includes(first) && history.lastIndexOf(then) > history.indexOf(first);
	});
};

const admin = (method: string, path: string, sent: Record<string, unknown>) =>
	world.request(method, path, {
		key: world.adminKey,
		...(method === "DELETE" ? { query: sent as Record<string, string> } : { body: sent }),
		mostTrips: 8,
	});
const ofApp = (method: string, path: string, sent: Record<string, unknown> = {}) =>
	admin(method, path, { app_id: app.appId, ...sent });
const pathOf = (url: string) => new URL(url).pathname + new URL(url).search;

async function begin() {
	await prepareJobs();
	nextRequest();
	await uploadTestBundle(world, app, "1.1.0");
	await uploadTestBundle(world, app, "1.2.0");
	await setTestChannel(world, app, "beta", { version: "1.1.0", allow_device_self_set: true });
	await setTestChannel(world, app, "guarded", { version: "1.0.0" });
	const ci = await createTestKey(world, "app_developer", app, { hashed: false });
	const proposer = await createTestKey(world, "app_developer", app);
	const [person, inviter, approver] = [
		await createTestMember(world, "org_admin"),
		await createTestMember(world, "org_admin"),
		await createTestMember(world, "org_admin"),
	];
	const session = await signIn(world, person.email);
	const approving = await signInByPasskey(world, await signIn(world, approver.email));
	const email = `invited.${world.userId}@example.com`;
	const token = await invitedToken(world, email, "org_member", inviter.key.text);
	const linkOf = async (key: string, version: string) => {
		const { status, body } = await world.request("POST", "/bundle", {
			key,
			body: { app_id: app.appId, version },
			mostTrips: 8,
		});
		expect(status, JSON.stringify(body)).toBe(201);
		return body.upload_url as string;
	};
	const link = await linkOf(ci.text, "2.0.0");
	await register(world, app, "2.1.0", ci.text);
	const location = locationOf(await tusCreate(world, ci.text, zipName(world, app, "2.1.0"), 1_000));
	const job = await jobOf();
	const version = `0.0.0-pr-${number}.1`;
	await upload(job, version);
	expect((await promote(job, version)).status).toBe(200);
	const jobLink = await linkOf(job, `0.0.0-pr-${number}.2`);
	const channel = `pr-${number}`;
	const previews = await world.request("GET", "/preview", { key: world.adminKey, query: { app_id: app.appId } });
	const pageToken = new URL(previews.body[0].page_url).hash.slice(1);
	const opening = await world.request("GET", "/preview/link", {
		key: world.adminKey,
		query: { app_id: app.appId, channel },
	});
	await ofApp("POST", "/channel", { channel: "guarded", protected: true, requires_approval: true });
	const proposed = await world.request("POST", "/channel", {
		key: proposer.text,
		body: { app_id: app.appId, channel: "guarded", version: "1.2.0" },
	});
	expect(proposed.status, JSON.stringify(proposed.body)).toBe(202);
	const device = crypto.randomUUID();
	expect((await ofApp("POST", "/device", { device_id: device, version_id: "1.2.0" })).status).toBe(200);
	const publishers = await world.request("GET", "/publisher", { key: world.adminKey, query: { app_id: app.appId } });
	const check = (fields: object) =>
		world.request("POST", "/updates", {
			body: {
				app_id: app.appId,
				device_id: crypto.randomUUID(),
				platform: "android",
				version_name: "builtin",
				version_build: "1.0.0",
				plugin_version: "8.51.23",
				...fields,
			},
		});
	const checked = await check({ defaultChannel: "beta" });
	expect(checked.body, JSON.stringify(checked.body)).toMatchObject({ version: "1.1.0" });
	const download = checked.body.url as string;
	return {
		ci,
		proposer,
		session,
		approving,
		approver,
		person,
		inviter,
		email,
		token,
		link,
		location,
		job,
		version,
		jobLink,
		channel,
		pageToken,
		payload: opening.body.payload_url as string,
		proposal: proposed.body.proposal_id as string,
		device,
		publisher: publishers.body[0].id as string,
		check,
		download,
	};
}
type Held = Awaited<ReturnType<typeof begin>>;

const is = async (answer: Promise<{ readonly status: number }>, status = 200) => (await answer).status === status;
const seesApp = (by: { key: string } | Pick<TestSession, "headers">) =>
	is(world.request("GET", `/app/${app.appId}`, { ...by, mostTrips: 4 }));

/**
 * One use of each right, which leaves it as it is. An upload link without a body is asked for its
 * length only while it may upload.
 */
const usesOf = (held: Held): Uses => ({
	"secret of a key": () => is(registers(held.ci.text), 201),
	"upload link of a key": () => is(world.request("PUT", held.link), 411),
	"resumable upload": () => is(tusHead(world, held.ci.text, held.location)),
	"key of a job": () => is(world.request("GET", "/preview", { key: held.job, query: { app_id: app.appId } })),
	"upload link of a job": () => is(world.request("PUT", held.jobLink), 411),
	"page of a preview": () => is(world.request("POST", "/preview/show", { body: { token: held.pageToken } })),
	"link to a preview": async () => (await world.request("GET", pathOf(held.payload))).body.version === held.version,
	"name of a preview": async () => (await offered(held.channel)) === held.version,
	"name of a channel": async () => (await offered("beta")) === "1.1.0",
	"choice of a channel": async () => {
		const body = {
			app_id: app.appId,
			device_id: crypto.randomUUID(),
			platform: "android",
			version_name: "builtin",
			version_build: "1.0.0",
			plugin_version: "8.51.23",
			channel: "beta",
		};
		return (await world.request("POST", "/channel_self", { body })).body.status === "ok";
	},
	"download link": () => is(world.request("GET", pathOf(held.download))),
	"override of a device": async () => (await held.check({ device_id: held.device })).body.version === "1.2.0",
	session: () => seesApp({ headers: held.session.headers }),
	invitation: () => is(world.request("POST", "/invitation/show", { body: { token: held.token } })),
});
let versions = 0;
const registers = (key: string) => {
	const body = { app_id: app.appId, version: `3.0.${++versions}` };
	return world.request("POST", "/bundle", { key, body, mostTrips: 8 });
};

const EVENTS: Readonly<Record<string, (held: Held) => Promise<Pick<Answer, "status">>>> = {
	keyRevoked: ({ ci }) => admin("DELETE", `/apikey/${ci.id}`, {}),
	keyExpired: async ({ ci }) => {
		const expires_at = new Date(world.clock.nowMs + 1).toISOString();
		return admin("PUT", `/apikey/${ci.id}`, { expires_at });
	},
	keyAddresses: ({ ci }) => admin("PUT", `/apikey/${ci.id}`, { ip_allow_list: ["198.51.100.0/24"] }),
	keyLowered: ({ ci }) => {
		const role = { role_name: "app_reader", scope_type: "app", org_id: world.orgId, app_id: app.uuid };
		return admin("PUT", `/apikey/${ci.id}`, { bindings: [role] });
	},
	keyReplaced: ({ ci }) => admin("PUT", `/apikey/${ci.id}`, { regenerate: true, hashed: false }),
	keyRegenerated: ({ ci }) =>
		admin("PUT", `/apikey/${ci.id}`, { regenerate: true, hashed: false, overlap_seconds: 3_600 }),
	policyHashed: () => admin("PUT", "/organization", { orgId: world.orgId, enforce_hashed_api_keys: true }),
	hourPassed: async () => {
		world.clock.nowMs += HOUR_MS;
		return { status: 200 };
	},
	publisherDeleted: ({ publisher }) => ofApp("DELETE", "/publisher", { id: publisher }),
	pullRequestClosed: () => ofApp("DELETE", "/preview", { repository: REPOSITORY, number: String(number) }),
	pageReplaced: ({ channel }) => ofApp("POST", "/preview/page", { channel }),
	prefixChanged: () => admin("PUT", `/app/${app.appId}`, { preview_channel_prefix: "review-" }),
	channelClosed: () => ofApp("POST", "/channel", { channel: "beta", allow_device_self_set: false }),
	channelDeleted: () => ofApp("DELETE", "/channel", { channel: "beta" }),
	overrideRemoved: ({ device }) => ofApp("DELETE", "/device", { device_id: device }),
	approverLowered: ({ approver }) =>
		admin("PUT", "/organization/members", { orgId: world.orgId, email: approver.email, role: "org_member" }),
	approverSignedOut: ({ approving }) => world.request("POST", "/sign-out", { headers: approving.headers, body: {} }),
	proposerRevoked: ({ proposer }) => admin("DELETE", `/apikey/${proposer.id}`, {}),
	protectionEnded: () => ofApp("POST", "/channel", { channel: "guarded", protected: false }),
	protectedDeleted: async () => {
		await ofApp("POST", "/channel", { channel: "guarded", protected: false });
		return ofApp("DELETE", "/channel", { channel: "guarded" });
	},
	signedOut: ({ session }) => world.request("POST", "/sign-out", { headers: session.headers, body: {} }),
	memberRemoved: ({ person }) => admin("DELETE", "/organization/members", { orgId: world.orgId, email: person.email }),
	inviterLowered: ({ inviter }) =>
		admin("PUT", "/organization/members", { orgId: world.orgId, email: inviter.email, role: "org_member" }),
	inviterRemoved: ({ inviter }) =>
		admin("DELETE", "/organization/members", { orgId: world.orgId, email: inviter.email }),
	invitationWithdrawn: ({ email }) => admin("DELETE", "/organization/members", { orgId: world.orgId, email }),
	appTransferred: async () => {
		const { body } = await admin("PUT", "/organization", { name: "receiver" });
		await ofApp("POST", "/app/transfer", { to_org: body.id });
		return ofApp("POST", "/app/transfer/accept");
	},
	appDeleted: () => admin("DELETE", `/app/${app.appId}`, {}),
	organizationDeleted: () => admin("DELETE", "/organization", { orgId: world.orgId }),
};
const NAMES = Object.keys(EVENTS);

test("the table names every event, and no other", () => {
	const named = new Set(
		Object.values(GRANTS).flatMap(([, ...events]) => events.flatMap((event) => event.split(" > "))),
	);
	expect([...named].sort()).toEqual([...NAMES].sort());
});

async function working(uses: Uses): Promise<Record<string, boolean>> {
	const found: Record<string, boolean> = {};
	for (const [right, use] of Object.entries(uses)) found[right] = (await use()) === true;
	return found;
}
const RIGHTS = (Object.keys(GRANTS) as Right[]).filter((right) => right !== ONCE);
const expected = (history: readonly string[]) =>
	Object.fromEntries(RIGHTS.map((right) => [right, !isEnded(right, history)]));

/**
 * An event that a former one made impossible, such as the deletion of a deleted channel, is refused
 * and changes nothing.
 */
async function live(events: readonly string[]): Promise<void> {
	const held = await begin();
	const uses = usesOf(held);
	const history: string[] = [];
	expect(await working(uses), "at first").toEqual(expected(history));
	for (const event of events) {
		const { status } = (await EVENTS[event]?.(held)) ?? { status: 0 };
		if (events.length === 1) expect(status, event).toBeLessThan(300);
		if (status < 300) history.push(event);
		world.clock.nowMs += CACHED_MS;
		expect(await working(uses), history.join(", ")).toEqual(expected(history));
	}
	const approved = await world.request("POST", "/proposal/approve", {
		headers: held.approving.headers,
		body: { app_id: app.appId, id: held.proposal },
		mostTrips: 8,
	});
	expect(approved.status === 200, `${ONCE} after ${history.join(", ")}: ${approved.status}`).toBe(
		!isEnded(ONCE, history),
	);
}

test.each(NAMES)("%s ends the rights that the table names, and no other", { timeout: 60_000 }, (event) =>
	live([event]),
);

test("no right outlives its end, whatever came before", { timeout: 240_000 }, async () => {
	const events = fc.shuffledSubarray(NAMES, { minLength: 3, maxLength: 9 });
	await fc.assert(fc.asyncProperty(events, live), {
		numRuns: RUNS,
		endOnFailure: true,
		examples: [[["appTransferred", "pullRequestClosed", "organizationDeleted"]]],
	});
});
