// biome-ignore-all lint/suspicious/noTemplateCurlyInString: Gradle and Xcode expand these placeholders
/** The versions of store builds that the `capstan` command reads in native projects. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readProject } from "../../cli/src/project";

let root: string;
beforeAll(async () => {
	root = await mkdtemp(join(tmpdir(), "capstan-store-versions-"));
});
afterAll(() => rm(root, { recursive: true }));

type Files = Readonly<Record<string, string>>;

async function projectWith(files: Files): Promise<string> {
	const directory = await mkdtemp(join(root, "project-"));
	for (const [path, text] of Object.entries(files)) {
		await mkdir(dirname(join(directory, path)), { recursive: true });
		await writeFile(join(directory, path), text);
	}
	return directory;
}

const GROOVY = "android/app/build.gradle";
const KOTLIN = "android/app/build.gradle.kts";
const XCODE = "ios/App/App.xcodeproj/project.pbxproj";
const PLIST = "ios/App/App/Info.plist";
const groovy = (setting: string, before = "") =>
	`${before}\nandroid {\n\tdefaultConfig {\n\t\tversionCode 1\n\t\t${setting}\n\t}\n}\n`;
const plist = (value: string) =>
	`<plist><dict>\n<key>CFBundleShortVersionString</key>\n<string>${value}</string>\n</dict></plist>`;
const xcode = (...settings: readonly string[]) =>
	settings
		.map(
			(each, index) => `\t\t${index} /* Release */ = {\n\t\t\tbuildSettings = {\n\t\t\t\t${each}\n\t\t\t};\n\t\t};\n`,
		)
		.join("");

const READ: readonly (readonly [string, Files, readonly string[]])[] = [
	["Groovy", { [GROOVY]: groovy('versionName "3.2.0"') }, ["3.2.0"]],
	["Groovy, assigned in single quotes", { [GROOVY]: groovy("versionName = '3.2.0'") }, ["3.2.0"]],
	["Groovy, called", { [GROOVY]: groovy('versionName("3.2.0")') }, ["3.2.0"]],
	["Groovy, a setter", { [GROOVY]: groovy('setVersionName("3.2.0")') }, ["3.2.0"]],
	["Groovy on one line", { [GROOVY]: 'android { defaultConfig { versionCode 1; versionName "3.2.0" } }' }, ["3.2.0"]],
	["Groovy with CRLF", { [GROOVY]: groovy('versionName "3.2.0"').replaceAll("\n", "\r\n") }, ["3.2.0"]],
	["Groovy with a byte order mark", { [GROOVY]: '\uFEFFversionName "3.2.0"' }, ["3.2.0"]],
	["Kotlin", { [KOTLIN]: groovy('versionName = "3.2.0"') }, ["3.2.0"]],
	[
		"both scripts",
		{ [GROOVY]: groovy('versionName "1.0"'), [KOTLIN]: groovy('versionName = "3.2.0"') },
		["1.0", "3.2.0"],
	],
	[
		"flavors and build types",
		{
			[GROOVY]: `android {
	defaultConfig { versionName "1.0.0" }
	buildTypes { release { versionName "2.0.0" } }
	productFlavors { free { versionName "3.2.0" }
		paid { versionName = "3.3.0" } }
}`,
		},
		["1.0.0", "2.0.0", "3.2.0", "3.3.0"],
	],
	[
		"comments of both kinds",
		{
			[GROOVY]: groovy(
				'// versionName "9.0.0"\n/* versionName "9.1.0"\nversionName "9.2.0" */\nversionName "3.2.0" // was "8.0.0"',
			),
		},
		["3.2.0"],
	],
	[
		"nested comments of Kotlin",
		{ [KOTLIN]: groovy('/* /* */ versionName = "9.0.0" */\nversionName = "3.2.0"') },
		["3.2.0"],
	],
	[
		"an address in a string",
		{ [GROOVY]: groovy('versionName "3.2.0"', 'def url = "https://example.com/*"') },
		["3.2.0"],
	],
	["a variable in braces", { [GROOVY]: groovy('versionName "${v}"', 'def v = "3.2.0"') }, ["3.2.0"]],
	["a variable without braces", { [GROOVY]: groovy('versionName "$v"', "def v = '3.2.0'") }, ["3.2.0"]],
	[
		"a variable of the same name",
		{ [GROOVY]: groovy("versionName versionName", 'def versionName = "3.2.0"') },
		["3.2.0"],
	],
	["a Kotlin value", { [KOTLIN]: groovy("versionName = v", 'val v: String = "3.2.0"') }, ["3.2.0"]],
	[
		"parts of a version",
		{ [GROOVY]: groovy('versionName "${major}.${minor}.${patch}"', "def major = 3\ndef minor = 2\ndef patch = 0") },
		["3.2.0"],
	],
	["parts with a plus", { [GROOVY]: groovy('versionName major + "." + 2 + ".0"', "def major = 3") }, ["3.2.0"]],
	[
		"gradle.properties",
		{
			[GROOVY]: groovy("versionName project.VERSION_NAME"),
			"android/gradle.properties": "# VERSION_NAME=9\nVERSION_NAME=3.2.0\n",
		},
		["3.2.0"],
	],
	[
		"a property by name",
		{
			[GROOVY]: groovy('versionName project.findProperty("app.version")'),
			"android/gradle.properties": "app.version = 3.2.0",
		},
		["3.2.0"],
	],
	[
		"a provider of a property",
		{ [KOTLIN]: groovy('versionName = providers.gradleProperty("V").get()'), "android/gradle.properties": "V=3.2.0" },
		["3.2.0"],
	],
	[
		"a delegated property",
		{
			[KOTLIN]: groovy("versionName = appVersion", "val appVersion: String by project"),
			"android/gradle.properties": "appVersion=3.2.0",
		},
		["3.2.0"],
	],
	[
		"version.properties that a script loads",
		{
			[GROOVY]: groovy(
				"versionName versionProps['VERSION_NAME']",
				'def versionProps = new Properties()\nversionProps.load(new FileInputStream(file("../version.properties")))',
			),
			"android/version.properties": "VERSION_NAME=3.2.0",
		},
		["3.2.0"],
	],
	[
		"a file of properties with another name",
		{
			[GROOVY]: groovy('versionName p.getProperty("name")', 'def p = load(rootProject.file("config/app.properties"))'),
			"android/config/app.properties": "name=3.2.0",
		},
		["3.2.0"],
	],
	[
		"a version catalog",
		{
			[KOTLIN]: groovy("versionName = libs.versions.app.version.get()"),
			"android/gradle/libs.versions.toml": '[versions]\nagp = "8.7.2"\napp-version = "3.2.0"\n[libraries]\n',
		},
		["3.2.0"],
	],
	[
		"an extra property of the root",
		{
			[GROOVY]: groovy("versionName rootProject.ext.appVersion"),
			"android/variables.gradle": "ext {\n\tminSdk = 23\n\tappVersion = '3.2.0'\n}",
		},
		["3.2.0"],
	],
	[
		"an extra property of Kotlin",
		{
			[KOTLIN]: groovy('versionName = rootProject.extra["v"] as String'),
			"android/build.gradle.kts": 'extra["v"] = "3.2.0"',
		},
		["3.2.0"],
	],
	[
		"a script that is applied",
		{
			[GROOVY]: groovy("versionName appVersion", 'apply from: "../version.gradle"'),
			"android/version.gradle": 'ext.appVersion = "3.2.0"',
		},
		["3.2.0"],
	],
	["both values of a condition", { [GROOVY]: groovy('versionName isBeta ? "3.2.0" : "1.0.0"') }, ["3.2.0", "1.0.0"]],
	["both values of an if", { [KOTLIN]: groovy('versionName = if (beta) "3.2.0" else "1.0.0"') }, ["3.2.0", "1.0.0"]],
	[
		"package.json",
		{
			[GROOVY]: groovy(
				"versionName packageJson.version",
				'def packageJson = new JsonSlurper().parse(file("../../package.json"))',
			),
			"package.json": '{"version":"3.2.0"}',
		},
		["3.2.0"],
	],
	[
		"the manifest, outside of comments",
		{
			[GROOVY]: "android { }",
			"android/app/src/main/AndroidManifest.xml":
				'<!-- android:versionName="9.0" --><manifest android:versionName="3.2.0"/>',
		},
		["3.2.0"],
	],
	["a target of Xcode", { [XCODE]: xcode("MARKETING_VERSION = 3.2;") }, ["3.2"]],
	[
		"every configuration and target",
		{
			[XCODE]: xcode(
				"MARKETING_VERSION = 1.0;",
				'MARKETING_VERSION = "3.2.0";',
				'"MARKETING_VERSION[sdk=iphoneos*]" = 3.3;',
				"/* MARKETING_VERSION = 9.0; */",
			),
		},
		["1.0", "3.2.0", "3.3"],
	],
	[
		"a project that was renamed",
		{ "ios/App/Shop.xcodeproj/project.pbxproj": xcode("MARKETING_VERSION = 3.2.0;") },
		["3.2.0"],
	],
	["a reference in Xcode", { [XCODE]: xcode('APP_MAJOR = 3;\nMARKETING_VERSION = "$(APP_MAJOR).2.0";') }, ["3.2.0"]],
	[
		"xcconfig",
		{ "ios/App/App.xcconfig": "// MARKETING_VERSION = 9.0\nMARKETING_VERSION = 3.2.0 // release\n" },
		["3.2.0"],
	],
	[
		"xcconfig behind Xcode",
		{ [XCODE]: xcode('MARKETING_VERSION = "${V}";'), "ios/debug.xcconfig": "V = 3.2.0\n" },
		["3.2.0"],
	],
	[
		"Info.plist",
		{ [PLIST]: `<!-- ${plist("9.0")} -->\n${plist("3.2.0")}`, [XCODE]: xcode("PRODUCT_NAME = App;") },
		["3.2.0"],
	],
	[
		"Info.plist that refers to Xcode",
		{ [PLIST]: plist("$(MARKETING_VERSION)"), [XCODE]: xcode("MARKETING_VERSION = 3.2.0;") },
		["3.2.0"],
	],
	[
		"pods, which are other projects",
		{ [XCODE]: xcode("MARKETING_VERSION = 3.2.0;"), "ios/App/Pods/A/Info.plist": plist("9.0") },
		["3.2.0"],
	],
	["Electron", { "electron/package.json": '\uFEFF{"version":"3.2.0"}' }, ["3.2.0"]],
	["no native project", {}, []],
	[
		"folders that the Capacitor configuration names",
		{
			"capacitor.config.json": JSON.stringify({ android: { path: "native/droid" }, ios: { path: "native/apple" } }),
			"native/droid/app/build.gradle": groovy("versionName rootProject.ext.v"),
			"native/droid/variables.gradle": "ext { v = '3.2.0' }",
			"native/apple/App/App.xcodeproj/project.pbxproj": "MARKETING_VERSION = 3.3.0;",
			"android/app/build.gradle": groovy('versionName "9.0.0"'),
		},
		["3.2.0", "3.3.0"],
	],
	[
		"an output of a variant",
		{
			[GROOVY]:
				'android { defaultConfig { versionName "3.2.0" }\n applicationVariants.all { variant -> variant.outputs.each { o -> o.versionNameOverride = "4.0.0" } } }',
		},
		["3.2.0", "4.0.0"],
	],
	[
		"a suffix of a flavor",
		{ [GROOVY]: groovy('versionName "3.2"\n\t\tfree { versionNameSuffix ".9" }') },
		["3.2", "3.2.9"],
	],
	[
		"a suffix that leaves the numbers as they are",
		{
			[KOTLIN]: groovy('versionName = "3.2.0"\n\t\tversionNameSuffix = "-${gitHash()}"\n\t\tversionNameSuffix = null'),
		},
		["3.2.0"],
	],
	[
		"a build number",
		{ [GROOVY]: groovy('versionCode 57\n\t\tversionName "3.2.0.${versionCode}"') },
		["3.2.0.1", "3.2.0.57"],
	],
	[
		"a rich version of a catalog",
		{
			[KOTLIN]: groovy("versionName = libs.versions.app.version.get()"),
			"android/gradle/libs.versions.toml": '[versions]\nagp = "8.1.0"\napp-version = { strictly = "3.2.0" }\n',
		},
		["3.2.0"],
	],
	[
		"the package of an Electron app",
		{ "package.json": JSON.stringify({ version: "0.5.0", dependencies: { electron: "1.0.0" } }) },
		["0.5.0"],
	],
	[
		"the build of an Electron app",
		{
			"package.json": JSON.stringify({
				version: "0.5.0",
				devDependencies: { electron: "1.0.0" },
				build: { extraMetadata: { version: "3.2.0" } },
			}),
		},
		["3.2.0"],
	],
];

const UNREAD: readonly (readonly [string, Files, readonly object[]])[] = [
	[
		"a number that cannot be held",
		{ [GROOVY]: groovy('versionName "3.99999999999999999.0"') },
		[{ file: GROOVY, line: 5 }],
	],
	["the environment", { [GROOVY]: groovy('versionName System.getenv("VERSION")') }, [{ file: GROOVY, line: 5 }]],
	[
		"the environment with another value",
		{ [KOTLIN]: groovy('versionName = System.getenv("V") ?: "1.0.0"') },
		[{ file: KOTLIN, line: 5 }],
	],
	[
		"a function",
		{ [GROOVY]: groovy("versionName gitVersion()", "def gitVersion() {\n\treturn run()\n}") },
		[{ file: GROOVY, line: 7 }],
	],
	[
		"a property that is set nowhere",
		{ [GROOVY]: groovy("versionName project.VERSION_NAME") },
		[{ file: GROOVY, line: 5 }],
	],
	[
		"a variable in a string that is set nowhere",
		{ [GROOVY]: groovy('versionName "1.${build}"') },
		[{ file: GROOVY, line: 5 }],
	],
	["text without a number", { [GROOVY]: groovy('versionName "next"') }, [{ file: GROOVY, line: 5 }]],
	["scripts without a version", { [GROOVY]: "android { }" }, [{ file: GROOVY, line: undefined }]],
	[
		"a reference of Xcode to nothing",
		{ [XCODE]: xcode('MARKETING_VERSION = "$(FROM_CI)";') },
		[{ file: XCODE, line: 3 }],
	],
	["Info.plist with a reference to nothing", { [PLIST]: plist("$(FROM_CI)") }, [{ file: PLIST, line: 2 }]],
	["a binary Info.plist", { [PLIST]: "bplist00…" }, [{ file: PLIST, line: 1 }]],
	["Xcode without a version", { [XCODE]: xcode("PRODUCT_NAME = App;") }, [{ file: XCODE, line: undefined }]],
];

describe("versions of store builds", () => {
	test.each(READ)("are read from %s", async (_, files, versions) => {
		const { storeVersions } = await readProject(await projectWith(files));
		expect(storeVersions).toEqual({ versions, unreadable: [] });
	});

	test.each(UNREAD)("are reported as unreadable for %s", async (_, files, unreadable) => {
		const { storeVersions } = await readProject(await projectWith(files));
		expect(storeVersions).toEqual({ versions: [], unreadable });
	});

	test("keep what could be read beside a place that could not", async () => {
		const files = { [GROOVY]: groovy('versionName "3.2.0"\n\t\tversionName gitVersion()') };
		const { storeVersions } = await readProject(await projectWith(files));
		expect(storeVersions).toEqual({ versions: ["3.2.0"], unreadable: [{ file: GROOVY, line: 6 }] });
	});

	test("need no native project if the plugin's configuration names the version", async () => {
		const config = JSON.stringify({ plugins: { CapacitorUpdater: { version: "4.0.0" } } });
		const files = { [GROOVY]: groovy("versionName gitVersion()"), "capacitor.config.json": config };
		const { storeVersions } = await readProject(await projectWith(files));
		expect(storeVersions).toEqual({ versions: ["4.0.0"], unreadable: [] });
	});
});
