/**
 * Settings of a channel that a screen proposes, in the words of the form of the channel. The API
 * sends them as data, so a screen reads no sentence of it.
 */
import { DELIVERY_FIELDS } from "../../../src/domain/updates/channel-fields";

type Settings = Readonly<Record<string, string | boolean | undefined>>;

const PLATFORMS: readonly string[] = ["ios", "android", "electron"];
const LABELS = new Map<string, string>(
	Object.values(DELIVERY_FIELDS).map(({ field, label }) => [
		field,
		PLATFORMS.includes(field) ? label : label.split(" ").length > 2 ? `“${label}”` : label.toLowerCase(),
	]),
);
const ALLOWED: Readonly<Record<string, string>> = {
	none: "allow all updates",
	major: "allow all but major updates",
};

export const capital = (text: string) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;

/** "turn on production builds and allow all updates" */
export function settingWords(settings: Settings): string {
	const words = Object.entries(settings).flatMap(([field, value]) => {
		if (value === undefined || field === "channel") return [];
		if (typeof value === "string") return [ALLOWED[value] ?? `choose ${value}`];
		return [`turn ${value ? "on" : "off"} ${LABELS.get(field) ?? field}`];
	});
	return words.length < 2 ? words.join() : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** A remedy of an update decision: what else helps, then the settings. */
export function remedyWords({
	settings,
	otherwise,
}: {
	readonly settings: (Settings & { readonly channel: string }) | null;
	readonly otherwise: string | null;
}): string {
	const change = settings === null ? "" : `${settingWords(settings)} on channel ${settings.channel}.`;
	if (otherwise === null) return capital(change);
	return change === "" ? otherwise : `${otherwise} Or ${change}`;
}
