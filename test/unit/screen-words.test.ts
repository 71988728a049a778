/** Messages of the server as the dashboard shows them: no request and no field name of the API is left, and something always is. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { namedField, screenWords } from "../../dashboard/src/components/screen-words";

const FEATURES = fileURLToPath(new URL("../../src", import.meta.url));

/** The fixed messages of errors: the text after a code in `new ApiError(` and in functions that make one. */
const MESSAGES = readdirSync(FEATURES, { recursive: true, encoding: "utf8" })
	.filter((path) => path.endsWith(".ts"))
	.flatMap((path) =>
		[...readFileSync(join(FEATURES, path), "utf8").matchAll(/ApiError\(\s*"\w+",\s*"((?:[^"\\]|\\.)+)"/g)].map(
			([, message = ""]) => message,
		),
	);

describe("screenWords", () => {
	test.each([
		["There is no such bundle; check its version against GET /bundle.", "There is no such bundle."],
		[
			"this person is already a member. Change their role with PUT /organization/members.",
			"This person is already a member.",
		],
		["Turn on allow_prod on channel beta.", "Turn on production builds on channel beta."],
		[
			"Promote a bundle of at least 2.0.0 to channel beta, or set disableAutoUpdate to none on channel beta.",
			"Promote a bundle of at least 2.0.0 to channel beta, or allow all updates on channel beta.",
		],
		[
			"Bundle 2.0.0 does not fit, or have somebody send requireCompatibleBundle: false.",
			"Bundle 2.0.0 does not fit, or have somebody turn off “Only bundles that fit the store builds”.",
		],
		["must be a reverse-domain id, such as com.example.app", "Must be a reverse-domain id, such as com.example.app."],
		[
			"No project at https://github.com/acme_corp/myShop answers.",
			"No project at https://github.com/acme_corp/myShop answers.",
		],
	])("%s", (message, words) => expect(screenWords(message)).toBe(words));

	test("finds the field that a message begins with", () => {
		expect(namedField("owner_org: no organization has this id.")).toEqual({
			field: "owner_org",
			text: "no organization has this id.",
		});
		expect(namedField("Waiting: soon")).toBeUndefined();
	});

	test("leaves no request and no field name in any message of the server", () => {
		expect(MESSAGES.length).toBeGreaterThan(50);
		const wrong = MESSAGES.flatMap((message) => {
			const words = screenWords(namedField(message)?.text ?? message);
			return words === "" || /\b(GET|POST|PUT|DELETE) \/|(?<![\w/.@“-])[a-z]+_[a-z]+\b/.test(words)
				? [`${message} -> ${words}`]
				: [];
		});
		expect(wrong).toEqual([]);
	});
});
