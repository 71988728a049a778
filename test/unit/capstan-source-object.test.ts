/**
 * Editing configuration files: only the texts of changed values move, in JSON and in TypeScript.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { lineDifference } from "../../cli/src/line-difference";
import {
	literalOf,
	NotEditable,
	readLiteral,
	rootObject,
	withSettings,
	withSettingsAt,
} from "../../cli/src/source-object";

const URL_SETTING = {
	path: ["plugins", "CapacitorUpdater", "updateUrl"],
	value: "https://u.example.com/updates",
} as const;

describe("a TypeScript configuration", () => {
	const TEXT = `import type { CapacitorConfig } from '@capacitor/cli';

// The app of the shop
const config: CapacitorConfig = {
  appId: 'com.example.shop', // never change it
  appName: "The \\"Shop\\"",
  webDir: 'dist',
  server: { androidScheme: 'https' },
  plugins: {
    /* the splash, { not closed */
    SplashScreen: { launchShowDuration: 0 },
    CapacitorUpdater: {
      autoUpdate: true, // on
    },
  },
};

export default config;
`;

	test("gets a setting in its style, and nothing else changes", () => {
		const edited = withSettings(TEXT, false, [URL_SETTING]);
		expect(lineDifference(TEXT, edited).filter((line) => /^[-+]/.test(line))).toEqual([
			"+       updateUrl: 'https://u.example.com/updates',",
		]);
		expect(edited).toContain("autoUpdate: true, // on\n      updateUrl:");
		expect(withSettings(edited, false, [URL_SETTING])).toBe(edited);
	});

	test("gets a changed value in its place, and whole objects that were missing", () => {
		const edited = withSettings(TEXT, false, [
			{ path: ["plugins", "CapacitorUpdater", "autoUpdate"], value: false },
			{ path: ["server", "cleartext"], value: true },
			{ path: ["ios", "deep", "flag"], value: 1 },
		]);
		expect(edited).toContain("autoUpdate: false, // on");
		expect(edited).toContain("server: { androidScheme: 'https', cleartext: true },");
		expect(edited).toContain("  ios: {\n    deep: {\n      flag: 1,\n    },\n  },\n};");
		expect(edited).toContain("/* the splash, { not closed */");
	});

	test("is read without running it", () => {
		const root = rootObject(TEXT, false);
		expect(readLiteral(TEXT, root, ["appName"])).toBe('The "Shop"');
		expect(readLiteral(TEXT, root, ["plugins", "CapacitorUpdater", "autoUpdate"])).toBe(true);
		expect(readLiteral(TEXT, root, ["plugins", "Nothing", "x"])).toBeUndefined();
	});
});

test.each([
	["export default {\n\tappId: 'a.b',\n} satisfies CapacitorConfig;\n"],
	["export default defineConfig({ appId: `a.b` });"],
	["module.exports = { 'appId': 'a.b' }"],
	['const c = { appId: "a.b" } as const;\nexport default c;'],
	["/// <reference types=\"x\" />\nconst config: CapacitorConfig = { appId: 'a.b', };\nexport default config;"],
])("the exported object is found in %j", (text) => {
	expect(readLiteral(text, rootObject(text, false), ["appId"])).toBe("a.b");
	const edited = withSettings(text, false, [URL_SETTING]);
	expect(readLiteral(edited, rootObject(edited, false), [...URL_SETTING.path])).toBe(URL_SETTING.value);
	expect(readLiteral(edited, rootObject(edited, false), ["appId"])).toBe("a.b");
});

test.each([
	["a function", "export default () => ({ appId: 'a.b' });"],
	["a spread", "export default { ...base, appId: 'a.b' };"],
	["a computed value", "export default { appId: 'a.b', plugins: pluginsFor(stage) };"],
	["a computed setting", "export default { plugins: { CapacitorUpdater: { updateUrl: process.env.URL } } };"],
	["no export", "const config = {};"],
	["a string that does not end", "export default { appId: 'a.b };"],
])("%s is reported as not editable", (_, text) => {
	expect(() => withSettings(text, false, [URL_SETTING])).toThrow(NotEditable);
});

test("the options of an Electron updater are edited where they are", () => {
	const text =
		"const updater = new ElectronUpdater({\n\tappId: 'a.b', // ours\n\tautoUpdate: true\n});\nupdater.run({ updateUrl: 1 });\n";
	const edited = withSettingsAt(text, text.indexOf("{"), [{ path: ["updateUrl"], value: "https://u" }]);
	expect(edited).toBe(text.replace("autoUpdate: true\n", "autoUpdate: true,\n\tupdateUrl: 'https://u'\n"));
});

test.each([
	["{}", '{\n  "a": 1\n}'],
	["{ }", '{\n  "a": 1\n}'],
	['{ "b": [1, "}"] }', '{ "b": [1, "}"], "a": 1 }'],
	['{\n\t"b": { "c": null } // kept\n}\n', '{\n\t"b": { "c": null }, // kept\n\t"a": 1\n}\n'],
	["{\n  // nothing yet\n}", '{\n  // nothing yet\n  "a": 1\n}'],
])("JSON %j becomes %j", (text, edited) => {
	expect(withSettings(text, true, [{ path: ["a"], value: 1 }])).toBe(edited);
});

test("a setting can be read back from any JSON file, whose other values stay", () => {
	const key = fc.stringMatching(/^[a-z]{1,4}$/);
	const { value } = fc.letrec((tie) => ({
		value: fc.oneof({ maxDepth: 3 }, fc.string(), fc.boolean(), fc.constant(null), fc.integer(), tie("object")),
		object: fc.dictionary(key, tie("value")),
	}));
	fc.assert(
		fc.property(fc.dictionary(key, value), fc.constantFrom(undefined, 2, "\t"), fc.string(), (object, indent, text) => {
			const before = JSON.stringify(object, null, indent);
			const edited = withSettings(before, true, [{ path: ["new.one", "inner"], value: text }]);
			expect(JSON.parse(edited)).toEqual({ ...object, "new.one": { inner: text } });
		}),
	);
});

test.each([
	["'it\\'s \\u0041\\n'", "it's A\n"],
	['"a"', "a"],
	["-1.5", -1.5],
	["null", null],
	["'a' + 'b'", undefined],
	["`a$" + "{b}`", undefined],
])("the literal %s is %j", (text, value) => expect(literalOf(text)).toBe(value));
