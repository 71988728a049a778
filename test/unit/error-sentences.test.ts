/**
 * Errors as the dashboard shows them: a sentence of its own for each code whose message names a
 * request, and no such name in it.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { errorSentence } from "../../dashboard/src/components/error-sentences";
import { errorText, formErrors } from "../../dashboard/src/components/field-errors";
import { remedyWords, settingWords } from "../../dashboard/src/components/setting-words";
import { CapstanError } from "../../src/client/client";
import { ERROR_REASONS, ERROR_STATUS, type ErrorCode, fieldError } from "../../src/errors";

const SOURCE = fileURLToPath(new URL("../../src", import.meta.url));
const REQUEST = /\b(GET|POST|PUT|DELETE) \/|Retry-After/;

/** Only commands, CI jobs and devices get these, or a page of their own explains them. */
const NOT_ON_SCREENS: readonly ErrorCode[] = [
	"invalid_identity_token",
	"issuer_unavailable",
	"invalid_signature",
	"preview_closed",
	"not_found",
	"permission_denied",
	"sign_in_required",
];

/** Codes and reasons whose message names a request. */
const NAMING = new Set(
	readdirSync(SOURCE, { recursive: true, encoding: "utf8" })
		.filter((path) => path.endsWith(".ts") && !path.startsWith("compat"))
		.flatMap((path) => [
			...readFileSync(join(SOURCE, path), "utf8").matchAll(
				/(?:Api|field)Error\(\s*"(\w+)",\s*(?:"\w+",\s*)?(["`])((?:(?!\2)[^\\]|\\.)+)\2,?\s*(?:\{\s*reason: "(\w+)")?/g,
			),
		])
		.filter(([, , , message = ""]) => REQUEST.test(message))
		.map(([, code = "", , , reason]) => reason ?? code),
);

const errorOf = (code: string, moreInfo: Record<string, unknown> = {}, message = "message") =>
	new CapstanError(400, code, message, moreInfo, "");

describe("an error on a screen", () => {
	test("has its own sentence if the message names a request", () => {
		expect(NAMING.size).toBeGreaterThan(30);
		const without = [...NAMING].filter((key) => errorSentence(errorOf(key, { reason: key })) === undefined);
		expect(without.filter((code) => !NOT_ON_SCREENS.some((each) => each === code)).sort()).toEqual([]);
	});

	test("names no request and no field", () => {
		const facts = {
			packages: [],
			percentage_bps: 500,
			version: "1.0.0",
			channel: "production",
			rollout_version: "1.1.0",
			live_version: "0.9.0",
			limit: 50,
		};
		const sentences = [
			...Object.keys(ERROR_STATUS).map((code) => errorSentence(errorOf(code, facts))),
			...ERROR_REASONS.map((reason) => errorSentence(errorOf("invalid_request", { ...facts, reason }))),
		].filter((sentence) => sentence !== undefined);
		expect(sentences.length).toBeGreaterThan(50);
		expect(sentences.filter((text) => REQUEST.test(text) || /[a-z]_[a-z]|undefined/.test(text))).toEqual([]);
	});

	test("has a sentence for each reason", () => {
		const facts = { percentage_bps: 500 };
		const without = ERROR_REASONS.filter(
			(reason) => errorSentence(errorOf("invalid_request", { ...facts, reason })) === undefined,
		);
		expect(without).toEqual([]);
	});

	test("is at the field that the API names, with the screen's sentence", () => {
		const { code, message, moreInfo } = fieldError("already_member", "email", "this person is a member.");
		expect(message).toBe("email: this person is a member.");
		const error = errorOf(code, moreInfo, message);
		expect(formErrors(error, ["email"]).at("email")).toBe("This person is already a member.");
		expect(formErrors(error, ["email"]).rest).toBeNull();
	});

	test("shows the API's message otherwise, with the label of the field", () => {
		const issues = [{ path: "body.owner_org", message: "is required" }];
		expect(errorText(errorOf("invalid_request", { issues }))).toBe("Organization is required.");
		expect(errorText(errorOf("checksum_mismatch", {}, "The bytes differ."))).toBe("The bytes differ.");
	});
});

test("settings are named by the labels of the form", () => {
	expect(settingWords({ allow_prod: true })).toBe("turn on production builds");
	expect(settingWords({ ios: true, disableAutoUpdate: "none" })).toBe("turn on iOS and allow all updates");
	expect(settingWords({ disableAutoUpdateUnderNative: false })).toBe("turn off “No downgrade below the store build”");
	expect(remedyWords({ settings: { channel: "beta", allow_prod: true }, otherwise: "Ship store build 2.0.0." })).toBe(
		"Ship store build 2.0.0. Or turn on production builds on channel beta.",
	);
});
