/**
 * The receiving end of webhooks: answers deliveries as the test says, and verifies each as a
 * receiver would, by the published library and, for v1a, by the platform's ed25519.
 */
import { Webhook } from "standardwebhooks";
import { vi } from "vitest";
import type { Deps } from "../../../src/deps";

export interface Received {
	readonly url: string;
	readonly headers: Readonly<Record<string, string>>;
	readonly text: string;
	// biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape
	readonly body: any;
}

export interface TestReceiver {
	readonly received: Received[];
	/**
	 * The answers to come, the last one again and again; 204 at first. An error breaks the connection
	 * off.
	 */
	answers: (Response | Error | Promise<Response>)[];
	readonly fetch: Deps["fetch"];
}

export function createReceiver(): TestReceiver {
	const received: Received[] = [];
	const receiver: TestReceiver = {
		received,
		answers: [],
		async fetch(url, init) {
			if (init.redirect !== "manual") throw new Error("a webhook would follow redirects");
			const text = String(init.body);
			received.push({ url, headers: init.headers as Record<string, string>, text, body: JSON.parse(text) });
			const answer = receiver.answers.length > 1 ? receiver.answers.shift() : receiver.answers[0];
			if (answer instanceof Error) throw answer;
			return answer === undefined ? new Response(null, { status: 204 }) : ((await answer).clone() as Response);
		},
	};
	return receiver;
}

/** The body, if the library accepts the delivery at the given time. */
export function verified(secret: string, { headers, text }: Received, nowMs: number): unknown {
	vi.useFakeTimers({ toFake: ["Date"], now: nowMs });
	try {
		return new Webhook(secret).verify(text, { ...headers });
	} finally {
		vi.useRealTimers();
	}
}

/** Whether one of the v1a signatures is by the public key `whpk_…`. */
export async function isSignedBy(publicKey: string, { headers, text }: Received): Promise<boolean> {
	const bytes = (base64: string) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
	const key = await crypto.subtle.importKey("raw", bytes(publicKey.replace("whpk_", "")), { name: "Ed25519" }, false, [
		"verify",
	]);
	const signed = new TextEncoder().encode(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${text}`);
	const signatures = (headers["webhook-signature"] ?? "").split(" ").filter((each) => each.startsWith("v1a,"));
	const verdicts = signatures.map((each) => crypto.subtle.verify("Ed25519", key, bytes(each.slice(4)), signed));
	return (await Promise.all(verdicts)).includes(true);
}
