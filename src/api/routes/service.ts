/**
 * The service about itself: that it runs, where people and programs go from its bare address, and at which addresses it is reached.
 */
import * as v from "valibot";
import { endpoint, Reply } from "../endpoint";
import { acknowledgement, OK } from "../schemas";
import { canKeepCookies, LOOPBACK_HOSTS } from "../session-cookie";

const TAG = "Service";

export const health = endpoint({
	method: "GET",
	path: "/ok",
	tag: TAG,
	summary: "Whether the Worker runs",
	access: { public: "It tells nothing but that the Worker answers." },
	response: acknowledgement,
	errors: [],
	example: { response: OK },
	async handle() {
		return OK;
	},
});

const START = { name: "Capstan", dashboard: "/dashboard/", docs: "/docs", openapi: "/openapi.json" } as const;

export const start = endpoint({
	method: "GET",
	path: "/",
	tag: TAG,
	summary: "Go to the dashboard",
	description:
		"A browser is redirected to the dashboard. Everything that does not ask for `text/html` gets the paths of the dashboard and of this documentation.",
	access: { public: "It names paths that every deployment has." },
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
		// Without a cookie nobody can sign in; the sign-in page says where they can.
		const page = canKeepCookies(origin) ? START.dashboard : "/sign-in";
		return new Response(null, {
			status: 302,
			headers: { Location: new URL(page, pageOrigin(origin)).href, "Cache-Control": "no-store", Vary: "Accept" },
		});
	},
});

/** The one origin that pages of a local run live at, so that a session and a passkey are found again. */
function pageOrigin(origin: string): string {
	const url = new URL(origin);
	if (url.protocol === "http:" && LOOPBACK_HOSTS.includes(url.hostname)) url.hostname = "localhost";
	return url.origin;
}

/** How the Android emulator reaches the loopback of the machine that it runs on. */
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
	description:
		"A deployment has one, `public`. A run of `npm start` has those of this computer, of the Android emulator and of the local network; the last ones are `reachable` when it was started with `--lan`.",
	access: { anyKey: "It shows addresses of this service, and nothing of any organization." },
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
