/**
 * Information about the service: its health, the redirect from its root to the dashboard, and the
 * addresses at which it is reachable.
 */
import * as v from "valibot";
import { VERSION } from "../../config";
import { canKeepCookies, LOOPBACK_HOSTS } from "../../http/cookies";
import { endpoint, Reply } from "../../http/endpoint";

const TAG = "Service";

export const health = endpoint({
	method: "GET",
	path: "/ok",
	tag: TAG,
	summary: "Check that the Worker runs",
	description:
		"`version` is the release of the Worker, `schema` the newest migration of its database, at most a minute old; null if the database has not answered.",
	access: { public: "The response is the same for every caller." },
	response: v.strictObject({ status: v.literal("ok"), version: v.string(), schema: v.nullable(v.string()) }),
	errors: [],
	example: { response: { status: "ok", version: "1.0.0", schema: "0001_schema" } },
	async handle({ db, schemaVersion, waitUntil, nowMs }) {
		const body = { status: "ok" as const, version: VERSION, schema: await schemaVersion.read(db, waitUntil) };
		// Local runs send no time by themselves, and the command compares clocks.
		return new Reply(200, body, { Date: new Date(nowMs).toUTCString() });
	},
});

const START = { name: "Capstan", dashboard: "/dashboard/", docs: "/docs", openapi: "/openapi.json" } as const;

export const start = endpoint({
	method: "GET",
	path: "/",
	tag: TAG,
	summary: "Redirect to the dashboard",
	description:
		"A browser is redirected to the dashboard. A request without `text/html` in Accept gets the paths of the dashboard and of this documentation.",
	access: { public: "The response contains paths that every deployment has." },
	headers: { accept: { description: "`text/html`, as browsers send it, is redirected.", example: "application/json" } },
	status: [200, 302],
	response: v.strictObject({
		name: v.literal(START.name),
		dashboard: v.string(),
		docs: v.string(),
		openapi: v.string(),
	}),
	rawResponse: { contentType: "text/plain", description: "The dashboard's address is in Location." },
	errors: [],
	example: { response: START },
	async handle({ request, origin }) {
		if (!(request.headers.get("accept") ?? "").includes("text/html")) return new Reply(200, START, { Vary: "Accept" });
		// Sign-in requires a cookie; without one, the sign-in page explains where to sign in.
		const page = canKeepCookies(origin) ? START.dashboard : "/sign-in";
		return new Response(null, {
			status: 302,
			headers: { Location: new URL(page, pageOrigin(origin)).href, "Cache-Control": "no-store", Vary: "Accept" },
		});
	},
});

/**
 * The origin of the pages. Local runs use `localhost` only, because sessions and passkeys belong to
 * one host.
 */
function pageOrigin(origin: string): string {
	const url = new URL(origin);
	if (url.protocol === "http:" && LOOPBACK_HOSTS.includes(url.hostname)) url.hostname = "localhost";
	return url.origin;
}

/** The address of the host's loopback interface inside the Android emulator. */
const ANDROID_EMULATOR_HOST = "10.0.2.2";

const addressSchema = v.strictObject({
	kind: v.picklist(["public", "this_computer", "android_emulator", "network"]),
	url: v.string(),
	reachable: v.boolean(),
});

export const listAddresses = endpoint({
	method: "GET",
	path: "/service/addresses",
	tag: TAG,
	summary: "List the addresses at which apps reach this service",
	description: [
		"A deployment has one address, `public`.",
		"A run of `npm start` has addresses for this computer, for the Android emulator and for the local",
		"network; the network addresses are `reachable` if it was started with `--lan`.",
	],
	access: { anyKey: "Shows addresses of this service, and no data of any organization." },
	response: v.array(addressSchema),
	errors: [],
	example: {
		response: [
			{ kind: "this_computer", url: "http://localhost:8787", reachable: true },
			{ kind: "android_emulator", url: "http://10.0.2.2:8787", reachable: true },
			{ kind: "network", url: "http://192.168.1.20:8787", reachable: false },
		],
	},
	async handle({ deps: { config }, origin }) {
		const { localRun } = config;
		if (localRun === undefined) return [{ kind: "public" as const, url: origin, reachable: true }];
		const at = (host: string) => {
			const url = new URL(origin);
			url.hostname = host;
			return url.origin;
		};
		return [
			{ kind: "this_computer" as const, url: at("localhost"), reachable: true },
			{ kind: "android_emulator" as const, url: at(ANDROID_EMULATOR_HOST), reachable: true },
			...localRun.networkAddresses.map((address) => ({
				kind: "network" as const,
				url: at(address),
				reachable: localRun.servesNetwork,
			})),
		];
	},
});
