/**
 * The command that "Copy as curl" gives: sh quotes every text of the event, and it signs as the
 * server does in both forms. test/node/dashboard-webhooks.test.ts sends it to a receiver.
 */
import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { curlCommand } from "../../dashboard/src/screens/webhooks/curl-command";

const SECRET = `whsec_${Buffer.from("a key of 32 bytes, as they are.!").toString("base64")}`;
const BODY = `{"name":"it's $(id) \`id\` \\\\n %s \\"x\\" é\\u0000"}`;

/** The arguments that curl gets. */
function argumentsOf(command: string): string[] {
	const printed = execFileSync("sh", ["-eu", "-c", `curl() { printf '%s\\000' "$@"; }\n${command}`], {
		env: { ...process.env, WEBHOOK_URL: "https://hooks.example.com/a b", WEBHOOK_SECRET: SECRET },
		encoding: "utf8",
	});
	return printed.split("\0").slice(0, -1);
}

test("quotes what people wrote, and leaves a chat's request unsigned", () => {
	const headers = { "content-type": "application/json", "x-note": "it's $(id)" };
	const args = ["https://hooks.example.com/a b", "-H", "content-type: application/json", "-H", "x-note: it's $(id)"];
	expect(argumentsOf(curlCommand({ headers, body: BODY }))).toEqual([...args, "--data-raw", BODY]);
});

test("signs a request of now with the secret, as Standard Webhooks and as Capgo's webhooks", () => {
	const shown = {
		headers: {
			"webhook-id": "msg_1",
			"webhook-timestamp": "1",
			"webhook-signature": "…",
			"x-capgo-timestamp": "1",
			"x-capgo-signature": "…",
		},
		body: BODY,
	};
	const args = argumentsOf(curlCommand(shown));
	const headers = new Map(
		args.filter((_, index) => args[index - 1] === "-H").map((line) => line.split(": ") as [string, string]),
	);
	const at = headers.get("webhook-timestamp") ?? "";
	expect(Math.abs(Number(at) - Date.now() / 1_000)).toBeLessThan(60);
	const key = Buffer.from(SECRET.replace("whsec_", ""), "base64");
	const signature = createHmac("sha256", key).update(`msg_1.${at}.${BODY}`).digest("base64");
	const ofText = createHmac("sha256", SECRET).update(`${at}.${BODY}`).digest("hex");
	expect(Object.fromEntries(headers)).toEqual({
		"webhook-id": "msg_1",
		"webhook-timestamp": at,
		"webhook-signature": `v1,${signature}`,
		"x-capgo-timestamp": at,
		"x-capgo-signature": `v1=${at}.${ofText}`,
	});
	expect(args.at(-1)).toBe(BODY);
});
