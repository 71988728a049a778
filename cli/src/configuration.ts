/**
 * The settings of the updater in a project's configuration, as `capstan init` writes them. A value
 * that the file computes is left alone and named, so that a person sets it; the rest of the file is
 * edited all the same. With `--config none` nothing is edited and everything is named.
 */
import type { FileChange } from "./ci-files";
import type { Project } from "./project";
import {
	type Literal,
	NotEditable,
	type SettingChange,
	withoutSetting,
	withSettings,
	withSettingsAt,
} from "./source-object";

export interface Configuration {
	/** Undefined if nothing is to be written. */
	readonly change: FileChange | undefined;
	/** Values that a person must set; undefined for one to remove. */
	readonly byHand: readonly {
		readonly path: readonly string[];
		readonly value: Literal | undefined;
		/** The file has a value that cannot be seen, which may be right. */
		readonly isComputed: boolean;
	}[];
	/** Why, for people. */
	readonly reason: string;
}

const CLEARTEXT = ["server", "cleartext"];

export function configure(project: Project, origin: string, appId: string): Configuration {
	const { config, kind } = project;
	const wanted = settingsOf(project, origin, appId);
	if (config?.root === undefined) {
		const reason =
			config === undefined
				? "No file creates an ElectronUpdater yet."
				: `${config.path} computes its object, so it cannot be edited safely.`;
		const text = config?.text ?? "";
		const missing = wanted.filter((each) => !isWritten(text, each));
		return { change: undefined, byHand: missing.map((each) => judged(text, each)), reason };
	}
	const { path, isJson, root } = config;
	const byHand: Configuration["byHand"][number][] = [];
	let reason = "";
	let text = config.text;
	for (const each of wanted) {
		try {
			text = kind === "electron" ? withSettingsAt(text, root.start, [each]) : withSettings(text, isJson, [each]);
		} catch (error) {
			if (!(error instanceof NotEditable)) throw error;
			if (isWritten(text, each)) continue;
			byHand.push(judged(text, each));
			reason = `${path}: ${error.message}.`;
		}
	}
	if (hasStrayCleartext(project, origin)) text = withoutSetting(text, isJson, CLEARTEXT);
	return { change: text === config.text ? undefined : { path, before: config.text, after: text }, byHand, reason };
}

/** The same for a configuration that must not change: everything that it lacks is for a person. */
export function configureByHand(project: Project, origin: string, appId: string): Configuration {
	const { config } = project;
	const isSet = (each: SettingChange) =>
		config?.root === undefined
			? isWritten(config?.text ?? "", each)
			: project.setting(...each.path) === each.value || isWritten(config.text, each);
	const byHand = [
		...settingsOf(project, origin, appId)
			.filter((each) => !isSet(each))
			.map((each) => judged(config?.text ?? "", each)),
		...(hasStrayCleartext(project, origin) ? [{ path: CLEARTEXT, value: undefined, isComputed: false }] : []),
	];
	return { change: undefined, byHand, reason: `${config?.path ?? "The configuration"} was not changed.` };
}

const settingsOf = (project: Project, origin: string, appId: string) =>
	project.kind === "electron" ? electronSettings(project, origin, appId) : capacitorSettings(project, origin, appId);

/** Plain HTTP was allowed for a local server, and the app now has one with HTTPS. */
const hasStrayCleartext = (project: Project, origin: string) =>
	project.kind === "capacitor" &&
	origin.startsWith("https:") &&
	project.server?.startsWith("http:") === true &&
	project.setting(...CLEARTEXT) === true;

const escaped = (part: string) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/**
 * Whether a computed file has the value in plain sight: as it is, beside another one such as that of
 * the environment, or by a constant of the file.
 */
function isWritten(text: string, { path, value }: SettingChange): boolean {
	const literal = typeof value === "string" ? `[^\\n,]*?(["'\`])${escaped(value)}\\1` : String(value);
	const wanted = new RegExp(`\\b${escaped(path.at(-1) ?? "")}\\b["']?\\s*:\\s*${literal}`);
	return wanted.test(withConstants(text));
}

function judged(text: string, change: SettingChange): Configuration["byHand"][number] {
	const name = escaped(change.path.at(-1) ?? "");
	return { ...change, isComputed: new RegExp(`\\b${name}\\b["']?\\s*[:,}]`).test(text) };
}

const CONSTANT = /\bconst\s+([\w$]+)\s*(?::\s*string)?\s*=\s*(["'`])([^"'`\n]*)\2/g;

/** The text with the strings of its constants in the place of their names. */
function withConstants(text: string): string {
	let resolved = text;
	for (const [, name = "", , value = ""] of text.matchAll(CONSTANT)) {
		const used = new RegExp(`(:\\s*)${escaped(name)}(?=\\s*[,}\\n])`, "g");
		resolved = resolved
			.replaceAll(`\${${name}}`, () => value)
			.replace(used, (_, colon: string) => `${colon}${JSON.stringify(value)}`);
	}
	return resolved;
}

/** Fields of the updater, the same in capacitor.config and in the options of Electron's updater. */
const addressesOf = (origin: string): readonly (readonly [string, string])[] => [
	["updateUrl", `${origin}/updates`],
	["statsUrl", `${origin}/stats`],
	["channelUrl", `${origin}/channel_self`],
];

/** The id, if the file has none. One that it computes is that of a flavor. */
const appIdSetting = ({ appId, config }: Project, wanted: string): SettingChange[] =>
	appId === undefined && config?.root?.members.every(({ key }) => key !== "appId") === true
		? [{ path: ["appId"], value: wanted }]
		: [];

function capacitorSettings(project: Project, origin: string, appId: string): SettingChange[] {
	const at = (field: string, value: string | boolean) => ({ path: ["plugins", "CapacitorUpdater", field], value });
	return [
		...appIdSetting(project, appId),
		// Somebody who switched it off has a reason.
		...(project.setting("plugins", "CapacitorUpdater", "autoUpdate") === undefined ? [at("autoUpdate", true)] : []),
		// The stock CLI reads these two.
		...[at("localApi", origin), at("localApiFiles", origin)],
		...addressesOf(origin).map(([field, value]) => at(field, value)),
		// Lets the Android app use plain HTTP during development.
		...(origin.startsWith("http:") ? [{ path: CLEARTEXT, value: true }] : []),
	];
}

const electronSettings = (project: Project, origin: string, appId: string): SettingChange[] => [
	...appIdSetting(project, appId),
	...addressesOf(origin).map(([field, value]) => ({ path: [field], value })),
];
