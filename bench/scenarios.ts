/**
 * The requests of each case and the checks of their answers. A wrong answer ends the run, because a
 * Worker that refuses is fast. Scenarios are plain data, because they are sent to the load
 * generator's process.
 */
import { bundleOf } from "./bundle";
import type { Answer, Connection, Question } from "./connection";

export type Scenario =
	| {
			readonly kind: "same";
			readonly question: Question;
			readonly status: number;
			readonly contains: readonly string[];
	  }
	/**
	 * `:n` in path and body becomes a unique number; `:item` in the path becomes a number from 1 to
	 * 1,000.
	 */
	| {
			readonly kind: "numbered";
			readonly question: Question;
			readonly status: number;
			readonly contains: readonly string[];
	  }
	/**
	 * An update check of one of `devices` devices from `firstDevice` on; `:n` in `appId` becomes the
	 * operation's number.
	 */
	| {
			readonly kind: "check";
			readonly appId: string;
			readonly versionName: string;
			readonly firstDevice: number;
			readonly devices: number;
			/**
			 * Kinds of devices that take turns: systems, store builds and versions of the app differ.
			 * Default: one.
			 */
			readonly kinds?: number;
			readonly contains: readonly string[];
	  }
	/**
	 * A report of one event by one of `devices` devices. With `isTimed` each has a distinct time, so
	 * that no report repeats another.
	 */
	| {
			readonly kind: "report";
			readonly appId: string;
			readonly action: string;
			readonly devices: number;
			readonly isTimed: boolean;
	  }
	| { readonly kind: "upload"; readonly appId: string; readonly key: string; readonly sizeBytes: number }
	| { readonly kind: "store"; readonly sizeBytes: number };

const JSON_TYPE = { "content-type": "application/json" };

/** A v4 UUID, derived from the number. */
export function deviceId(number: number): string {
	return `00000000-0000-4000-8000-${number.toString(16).padStart(12, "0")}`;
}

/** Number of requests of one operation. */
export function requestsOf(scenario: Scenario): number {
	return scenario.kind === "upload" ? 3 : 1;
}

/** One operation. `number` is unique per Worker. */
export type Operation = (connection: Connection, number: number) => Promise<void>;

export function operationOf(scenario: Scenario): Operation {
	switch (scenario.kind) {
		case "same":
			return async (connection) => expectAnswer(await connection.ask(scenario.question), scenario);
		case "numbered":
			return async (connection, number) => {
				const { question } = scenario;
				const asked: Question = {
					...question,
					path: question.path.replace(":item", String(1 + (number % 1000))).replace(":n", String(number)),
					...(typeof question.body === "string" ? { body: question.body.replace(":n", String(number)) } : {}),
				};
				expectAnswer(await connection.ask(asked), scenario);
			};
		case "check": {
			const body = JSON.stringify({
				app_id: scenario.appId,
				device_id: ":device",
				version_name: scenario.versionName,
				version_build: ":build",
				version_os: ":os",
				version_code: ":code",
				platform: "ios",
				plugin_version: "8.51.:plugin",
				is_emulator: false,
				is_prod: true,
				defaultChannel: "",
			});
			const bodies = Array.from({ length: scenario.kinds ?? 1 }, (_, kind) =>
				body
					.replace(":build", `1.0.${kind % 10}`)
					.replace(":os", `18.${Math.floor(kind / 10) % 20}`)
					.replace(":code", String(100 + (Math.floor(kind / 200) % 5)))
					.replace(":plugin", String(Math.floor(kind / 1_000))),
			);
			const expected = { status: 200, contains: scenario.contains };
			return async (connection, number) => {
				const device = scenario.firstDevice + (number % scenario.devices);
				const kind = bodies[device % bodies.length] ?? body;
				const asked = kind.replace(":device", deviceId(device)).replace(":n", String(number));
				expectAnswer(
					await connection.ask({ method: "POST", path: "/updates", headers: JSON_TYPE, body: asked }),
					expected,
				);
			};
		}
		case "report": {
			const body = JSON.stringify({
				app_id: scenario.appId,
				device_id: ":device",
				action: scenario.action,
				version_name: "1.0.1",
				version_build: "1.0.0",
				version_os: "18.2",
				version_code: "100",
				platform: "ios",
				plugin_version: "8.51.23",
				is_emulator: false,
				is_prod: true,
				defaultChannel: "",
				...(scenario.isTimed ? { timestamp: ":time" } : {}),
			});
			const startedAtMs = Date.now();
			const expected = { status: 200, contains: ['"status":"ok"'] };
			return async (connection, number) => {
				const asked = body
					.replace(":device", deviceId(number % scenario.devices))
					.replace('":time"', String(startedAtMs + number));
				expectAnswer(
					await connection.ask({ method: "POST", path: "/stats", headers: JSON_TYPE, body: asked }),
					expected,
				);
			};
		}
		case "upload":
			return upload(scenario);
		case "store": {
			const bytes = new Uint8Array(scenario.sizeBytes).fill(7);
			return async (connection) => {
				const answer = await connection.ask({ method: "PUT", path: "/object", body: bytes });
				expectAnswer(answer, { status: 200, contains: ['"stored":true'] });
			};
		}
	}
}

function upload({ appId, key, sizeBytes }: Extract<Scenario, { kind: "upload" }>): Operation {
	const bytes = bundleOf(sizeBytes);
	const headers = { ...JSON_TYPE, authorization: key };
	return async (connection, number) => {
		const body = JSON.stringify({ app_id: appId, version: `2.0.${number}` });
		const registered = await connection.ask({ method: "POST", path: "/bundle", headers, body });
		expectAnswer(registered, { status: 201, contains: ['"upload_url":"'] });
		const { pathname, search } = new URL((JSON.parse(registered.body) as { upload_url: string }).upload_url);
		const stored = await connection.ask({ method: "PUT", path: pathname + search, body: bytes });
		expectAnswer(stored, { status: 200, contains: [] });
		const completed = await connection.ask({ method: "POST", path: "/bundle/complete", headers, body });
		expectAnswer(completed, { status: 200, contains: ['"name":"2.0.'] });
	};
}

function expectAnswer(
	{ status, body }: Answer,
	expected: { readonly status: number; readonly contains: readonly string[] },
): void {
	if (status === expected.status && expected.contains.every((text) => body.includes(text))) return;
	throw new Error(
		`wrong answer: ${status} ${body.slice(0, 300)}; expected ${expected.status} with ${expected.contains.join(" and ")}`,
	);
}
