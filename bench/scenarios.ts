/**
 * What a client does in each case, once, and how its answer is known to be right. A wrong answer is an error that ends the run: a
 * Worker that refuses is fast. The values in a scenario travel to the load generator's process, so they are plain data.
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
	/** `:n` in the path and in the body becomes a number that is never used again; `:item` in the path one of 1 to 1,000. */
	| {
			readonly kind: "numbered";
			readonly question: Question;
			readonly status: number;
			readonly contains: readonly string[];
	  }
	/** An update check of one of `devices` devices from `firstDevice` on; `:n` in `appId` becomes the operation's number. */
	| {
			readonly kind: "check";
			readonly appId: string;
			readonly versionName: string;
			readonly firstDevice: number;
			readonly devices: number;
			readonly contains: readonly string[];
	  }
	| { readonly kind: "upload"; readonly appId: string; readonly key: string; readonly sizeBytes: number }
	| { readonly kind: "store"; readonly sizeBytes: number };

const JSON_TYPE = { "content-type": "application/json" };

/** The same for each number: a v4 UUID. */
export function deviceId(number: number): string {
	return `00000000-0000-4000-8000-${number.toString(16).padStart(12, "0")}`;
}

/** How many requests one operation is. */
export function requestsOf(scenario: Scenario): number {
	return scenario.kind === "upload" ? 3 : 1;
}

/** One operation; `number` is never given twice to the same Worker. */
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
				version_build: "1.0.0",
				version_os: "18.2",
				version_code: "100",
				platform: "ios",
				plugin_version: "8.51.23",
				is_emulator: false,
				is_prod: true,
				defaultChannel: "",
			});
			const expected = { status: 200, contains: scenario.contains };
			return async (connection, number) => {
				const device = scenario.firstDevice + (number % scenario.devices);
				const asked = body.replace(":device", deviceId(device)).replace(":n", String(number));
				expectAnswer(
					await connection.ask({ method: "POST", path: "/updates", headers: JSON_TYPE, body: asked }),
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
		`a wrong answer: ${status} ${body.slice(0, 300)}; expected ${expected.status} with ${expected.contains.join(" and ")}`,
	);
}
