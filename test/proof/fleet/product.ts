/**
 * The built product on a free loopback port with a temporary state directory; the simulator
 * controls its clock. Operators send requests through `api`; a refused request is a fault of the
 * simulation.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { D1Database } from "@cloudflare/workers-types";
import { build } from "esbuild";
import { serveCapstan } from "../../../src/operator/serve";
import { CONTROL_PATH, type Control, type ControlState } from "./control";
import { type Http, jsonOf, openHttp, type Reply } from "./http";

/** Interval between two checks whether the Queue is idle. */
const LOOK_MS = 100;
/** Consecutive checks that must find it idle. */
const LOOKS = 3;
const REST_LIMIT_MS = 10 * 60_000;

export interface SimulatedProduct {
	readonly origin: string;
	readonly adminKey: string;
	readonly http: Http;
	readonly database: D1Database;
	/** The clean-up moves the reports of apps into it. */
	readonly telemetry: D1Database;
	/** @throws {Error} unless the answer is a success */
	// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
	api(method: string, path: string, body?: unknown, key?: string): Promise<any>;
	/** @throws {Error} unless the answer is a success */
	send(
		method: string,
		path: string,
		headers: Record<string, string>,
		body?: string | Uint8Array,
		key?: string,
	): Promise<Reply>;
	control(control: Control): Promise<ControlState>;
	/** Waits until everything that was buffered and sent is counted. */
	rest(): Promise<ControlState>;
	runScheduled(): Promise<void>;
	stop(): Promise<void>;
}

export async function startSimulatedProduct(connections: number): Promise<SimulatedProduct> {
	const directory = await mkdtemp(join(tmpdir(), "capstan-fleet-"));
	const running = await serveCapstan({
		stateDirectory: join(directory, "state"),
		port: 0,
		unlimitedRequests: true,
		entry: await bundledEntry(),
	});
	const { adminKey } = running;
	if (adminKey === undefined) throw new Error("a first run has an admin key");
	const http = openHttp(running.url, connections);
	const control = async (wanted: Control): Promise<ControlState> =>
		jsonOf(await http.ask({ method: "POST", path: CONTROL_PATH, body: JSON.stringify(wanted) }));
	const send: SimulatedProduct["send"] = async (method, path, headers, body, key = adminKey) => {
		const authorized = path.startsWith("http") ? headers : { authorization: key, ...headers };
		const reply = await http.ask({ method, path, headers: authorized, ...(body === undefined ? {} : { body }) });
		if (reply.status >= 300) throw new Error(`${method} ${path}: ${reply.status} ${reply.bytes.toString()}`);
		return reply;
	};
	return {
		origin: running.url,
		adminKey,
		http,
		database: (await running.miniflare.getD1Database("DB")) as unknown as D1Database,
		telemetry: (await running.miniflare.getD1Database("TELEMETRY")) as unknown as D1Database,
		send,
		async api(method, path, body, key) {
			const json = { "content-type": "application/json" };
			const reply = await send(
				method,
				path,
				body === undefined ? {} : json,
				body === undefined ? undefined : JSON.stringify(body),
				key,
			);
			return reply.bytes.length === 0 ? undefined : jsonOf(reply);
		},
		control,
		async rest() {
			const endMs = Date.now() + REST_LIMIT_MS;
			for (let atRest = 0, before = ""; ; ) {
				const state = await control({});
				const { sent, done, sending, delays } = state;
				const same = before === `${sent} ${done}`;
				atRest = sent === done && sending === 0 && delays === 0 && same ? atRest + 1 : 0;
				if (atRest === LOOKS) return state;
				if (Date.now() > endMs) throw new Error(`the Queue does not come to rest: ${JSON.stringify(state)}`);
				before = `${sent} ${done}`;
				await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
			}
		},
		runScheduled: running.runScheduled,
		async stop() {
			http.close();
			await running.stop();
			await rm(directory, { recursive: true, force: true });
		},
	};
}

async function bundledEntry(): Promise<string> {
	const result = await build({
		entryPoints: [join(import.meta.dirname, "entry.ts")],
		bundle: true,
		write: false,
		format: "esm",
		target: "es2024",
		external: ["./worker.js", "node:*"],
		logLevel: "silent",
		outfile: "entry.js",
	});
	const [file] = result.outputFiles;
	if (file === undefined) throw new Error("esbuild made no output");
	return file.text;
}
