/**
 * Messages of the API in the words of the screens. The API names its fields and requests, because programs read it; a person sees the label of the
 * control instead, and no request. Pure, so that a test can hold every message of the server to it.
 */

import { ACCEPTANCE_FIELDS, DELIVERY_FIELDS } from "../../../src/domain/updates/channel-fields";

/** Names that a screen calls otherwise than their words say. */
const NAMES: Readonly<Record<string, string>> = {
	...Object.fromEntries(
		Object.values({ ...DELIVERY_FIELDS, ...ACCEPTANCE_FIELDS }).map(({ field, label }) => [
			field,
			label.split(" ").length > 2 ? `“${label}”` : label.toLowerCase(),
		]),
	),
	ios: DELIVERY_FIELDS.ios.label,
	android: DELIVERY_FIELDS.android.label,
	electron: DELIVERY_FIELDS.electron.label,
	min_update_version: "minimum store version",
	app_id: "app id",
	orgId: "organization",
	owner_org: "organization",
	to_org: "organization",
	icon_url: "icon",
	ip_allow_list: "allowed IP addresses",
	rolloutVersion: "rollout bundle",
	key_v2: "key",
};

/** Values that a screen shows as a choice. */
const PHRASES: readonly (readonly [RegExp, string])[] = [
	[/set disableAutoUpdate to none/gi, "allow all updates"],
	[/set disableAutoUpdate to major/gi, "allow all but major updates"],
	[/send requireCompatibleBundle: false/g, "turn off requireCompatibleBundle"],
	[/Upload it with `capstan release` or the stock CLI/g, "Upload it with the capstan command or the stock CLI"],
	[/updates by min_update_version/g, "offers bundles by their minimum store version"],
];

const REQUEST = /\b(?:GET|POST|PUT|PATCH|DELETE) \/|\bmoreInfo\b|Retry-After/;
const FIELD = /(?<![\w/.@“-])([a-z]+(?:_[a-z0-9]+)+|[a-z]+(?:[A-Z][a-z]+)+)(?![\w/@-]|\.\w)/g;

/** `rolloutPercentage` and `body.rollout_percentage` → `rollout percentage`. */
export function fieldWords(path: string): string {
	const [last = path] = path
		.split(".")
		.filter((part) => !/^\d+$/.test(part))
		.slice(-1);
	if (Object.hasOwn(NAMES, last)) return NAMES[last] ?? last;
	return last
		.replaceAll("_", " ")
		.replaceAll(/([a-z])([A-Z])/g, (_, end: string, begin: string) => `${end} ${begin.toLowerCase()}`);
}

export const capital = (text: string) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;

/** A field that a message begins with, e.g. `email: this person is a member.` */
export function namedField(message: string): { readonly field: string; readonly text: string } | undefined {
	const [, field, text] = /^([a-z][A-Za-z0-9_.]*): (.+)$/s.exec(message) ?? [];
	return field === undefined || text === undefined ? undefined : { field, text };
}

/** Without clauses that tell a program which request to send, and with the names of the screen. Empty if nothing else is left. */
export function screenWords(message: string): string {
	const clauses = message.match(/[^.;]+(?:[.;](?!\s|$)[^.;]*)*[.;]?\s*/g) ?? [message];
	const kept = clauses
		.filter((clause) => !REQUEST.test(clause))
		.join("")
		.trim();
	const text = PHRASES.reduce((said, [phrase, words]) => said.replaceAll(phrase, words), kept)
		.replaceAll("`", "")
		.replace(
			/\b(turn (?:on|off)) (ios|android|electron)\b/gi,
			(_, verb: string, name: string) => `${verb} ${NAMES[name] ?? name}`,
		)
		.replace(FIELD, (name) => fieldWords(name))
		.replace(/[;,:\s]+$/, "");
	if (text === "") return "";
	return capital(/[.!?…]$/.test(text) ? text : `${text}.`);
}
