/**
 * Lines of `npm run doctor` about the last run of the clean-up, about deliveries to webhooks, and
 * about servers that are not Capstan.
 */
import { describe, expect, test } from "vitest";
import { MINUTE_MS } from "../../src/domain/time";
import { serviceStatus } from "../../src/features/service/status";
import { examine } from "../../src/operator/doctor-checks";
import type { DoctorOptions, Status } from "../../src/operator/doctor-types";
import { cleanUp, webhooks } from "../../src/operator/doctor-work";

const NOW_MS = Date.parse("2026-11-21T08:00:00.000Z");
const found = (last_clean_up_at: Status["last_clean_up_at"], isLocal = false) =>
	cleanUp({ nowMs: () => NOW_MS, isLocal } as DoctorOptions, { last_clean_up_at } as Status);
const ranAgo = (minutes: number) => new Date(NOW_MS - minutes * MINUTE_MS).toISOString();

describe("the clean-up", () => {
	test("is ok for three of its periods, then fails with the remedy", () => {
		expect(found(ranAgo(45))).toEqual({ check: "clean-up", state: "ok", detail: "ran 45 minutes ago" });
		expect(found(ranAgo(46))).toMatchObject({ state: "failed", remedy: expect.stringContaining("cron trigger") });
		expect(found(ranAgo(46), true)).toMatchObject({ state: "warning", remedy: expect.stringContaining("npm start") });
	});

	test("is a warning before its first run, and skipped for a release that does not report it", () => {
		expect(found(null)).toMatchObject({ state: "warning", detail: "has not run yet" });
		expect(found(undefined)).toMatchObject({ state: "skipped" });
	});
});

describe("webhooks", () => {
	const foundDue = (due: number, oldest_at: string | null) =>
		webhooks({ nowMs: () => NOW_MS, isLocal: false } as DoctorOptions, { webhooks: { due, oldest_at } } as Status);

	test("are ok while deliveries wait for less than three periods of the clean-up, and fail then", () => {
		expect(foundDue(0, null)).toEqual({ check: "webhooks", state: "ok", detail: "0 deliveries are due" });
		expect(foundDue(1, ranAgo(0))).toMatchObject({ detail: "1 delivery is due, the oldest for 0 s" });
		expect(foundDue(3, ranAgo(1))).toMatchObject({ state: "ok", detail: "3 deliveries are due, the oldest for 60 s" });
		expect(foundDue(3, ranAgo(46))).toMatchObject({ state: "failed", remedy: expect.stringContaining("clean-up") });
	});

	test("are skipped for a release that does not report them", () => {
		expect(webhooks({ nowMs: () => NOW_MS } as DoctorOptions, {} as Status)).toMatchObject({ state: "skipped" });
	});
});

describe("a server that is not Capstan, or not of this release", () => {
	const status = serviceStatus.example.response as Status;
	const asJson = (body: unknown) => Response.json(body);
	const examined = (answers: Readonly<Record<string, () => Response>>) =>
		examine({
			url: "https://updates.example.com",
			key: "cap_key",
			isLocal: false,
			option: "",
			version: status.version,
			schema: "0001_schema",
			telemetrySchema: "0001_schema",
			nowMs: () => Date.parse(status.now),
			account: async () => undefined,
			fetch: async (address) =>
				answers[new URL(String(address)).pathname]?.() ?? Response.json({ error: "app_not_found" }),
		});
	const ok = () => asJson({ status: "ok", version: status.version, schema: status.schema });

	test("the example of the endpoint is what the doctor reads", async () => {
		const findings = await examined({ "/ok": ok, "/service/status": () => asJson(status) });
		expect(findings.find(({ check }) => check === "admin key")).toMatchObject({ state: "ok" });
	});

	const ODD_VALUES = [undefined, null, "x", 1, [], {}];
	const ODD: readonly (readonly [name: string, status: unknown])[] = [
		["null", null],
		["a list", []],
		["an empty object", {}],
		...Object.keys(status).flatMap((field) =>
			ODD_VALUES.map((value) => [`${field}: ${JSON.stringify(value)}`, { ...status, [field]: value }] as const),
		),
	];

	test.each(ODD)("GET /service/status with %s ends in findings", async (_name, body) => {
		const findings = await examined({ "/ok": ok, "/service/status": () => asJson(body) });
		const isRead = findings.some(({ check, state }) => check === "admin key" && state === "ok");
		if (isRead) expect(JSON.stringify(findings)).not.toMatch(/NaN|undefined/);
		else expect(findings.at(-1)).toMatchObject({ check: "status", state: "failed" });
	});

	test.each([
		["null", () => asJson(null), /answers 200, not as Capstan does/],
		["a page", () => new Response("<html>"), /answers 200, not as Capstan does/],
		["a redirect", () => new Response(null, { status: 302, headers: { location: "/login" } }), /leads to \/login/],
		["half an answer", () => new Response("{", { headers: { "content-type": "application/json" } }), /does not answer/],
		["a gateway", () => new Response("", { status: 502 }), /answers 502/],
	])("GET /ok with %s fails the address", async (_name, answer, detail) => {
		const [address] = await examined({ "/ok": answer });
		expect(address).toMatchObject({ check: "address", state: "failed", detail: expect.stringMatching(detail) });
	});
});
