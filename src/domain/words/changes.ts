/**
 * Sentences about entries of the audit log. Changes of what a channel serves read as in the release
 * timeline; a change of settings names the setting, its old value and its new one. The actor stands
 * before the sentence.
 */
import { CHANNEL_FIELDS, type ChannelField } from "../updates/channel-fields";
import { type ChangeFacts, releaseKind, releaseOf } from "./release-changes";
import { type SentencePart, shareText } from "./releases";

export type { ChangeFacts } from "./release-changes";

export interface SettingChange {
	readonly field: string;
	readonly label: string;
	/** Null: not set before, or not set any more. */
	readonly before: string | null;
	readonly after: string | null;
}

const FIELDS: readonly ChannelField[] = Object.values(CHANNEL_FIELDS);

const LABELS: Readonly<Record<string, string>> = {
	...Object.fromEntries(FIELDS.map(({ field, label, noun, audit }) => [audit ?? field, noun ?? label])),
	name: "Name",
	comment: "Notes",
	link: "Link",
	icon_url: "Icon",
	default_upload_channel: "Channel for uploads",
	retention: "Keep unused bundles",
	keep_live_bundles: "Bundles kept for rollback",
	expose_metadata: "Send notes to devices",
	allow_device_custom_id: "Custom ids of devices",
	block_provider_infra_requests: "No updates in review networks",
	allow_preview: "Open preview links",
	preview_channel_prefix: "Prefix of preview channels",
	preview_prereleases_only: "Previews are pre-releases",
	preview_max_days: "Longest preview in days",
	ios_store_url: "App Store page",
	android_store_url: "Google Play page",
	permissions: "Permissions",
	role: "Role",
	expires_at: "Expires at",
};

/** Names of the options, by the name of the choice in the audit log. */
const CHOICES = new Map(FIELDS.flatMap((one) => (one.kind === "choice" ? [[one.audit ?? one.field, one.names]] : [])));

const DAY_SECONDS = 86_400;

function shownValue(field: string, value: unknown): string | null {
	if (value === undefined || value === null) return null;
	if (typeof value === "boolean") return value ? "on" : "off";
	if (field === "retention" && typeof value === "number")
		return value === 0 ? "forever" : `${value / DAY_SECONDS} days`;
	if (field === "rolloutPausedAtMs" && typeof value === "number") return new Date(value).toISOString();
	if (field.endsWith("Bps")) {
		const steps: unknown = typeof value === "string" ? JSON.parse(value) : value;
		return Array.isArray(steps) ? steps.map((step) => shareText(Number(step))).join(", ") : shareText(Number(steps));
	}
	if (field === "events" && Array.isArray(value) && value.length === 0) return "all";
	if (typeof value !== "string") return listText(value);
	return CHOICES.get(field)?.[value] ?? value;
}

/** Lists and maps, such as the claims of a publisher. */
function listText(value: unknown): string {
	if (Array.isArray(value)) return value.map(listText).join(", ");
	if (typeof value !== "object" || value === null) return String(value);
	return Object.entries(value)
		.map(([name, of]) => `${name} ${listText(of)}`)
		.join(", ");
}

/** The settings that a change replaced; none for a creation or a deletion. */
export function settingChanges({ before, after }: Pick<ChangeFacts, "before" | "after">): SettingChange[] {
	if (before === null || after === null) return [];
	return [...new Set([...Object.keys(before), ...Object.keys(after)])]
		.map((field) => ({
			field,
			label: LABELS[field] ?? field.replaceAll("_", " "),
			before: shownValue(field, before[field]),
			after: shownValue(field, after[field]),
		}))
		.filter((change) => change.before !== change.after);
}

const THINGS: Readonly<Record<string, string>> = {
	api_key: "API key",
	signing_key: "signing key",
	preview_hook: "preview webhook",
	binding: "role of",
	publisher: "CI publisher",
	mails: "mails",
};

const VERBS: Readonly<Record<string, string>> = {
	create: "created",
	register: "registered",
	upload: "uploaded",
	update: "changed",
	delete: "deleted",
	reveal: "revealed the secret of",
	regenerate: "replaced the secret of",
	rotate: "replaced the secret of",
	restore: "restored",
	add: "added",
	remove: "removed",
	accept: "accepted",
	decline: "declined",
	transfer: "transferred",
	transfer_offer: "offered",
	transfer_withdraw: "withdrew the offer of",
	transfer_decline: "declined the offer of",
	release_id: "released the id of",
	exchange: "signed in as",
	set_manifest: "added the files of",
	mark_for_deletion: "marked for deletion",
	keep: "cleared the deletion mark of",
	change_email: "changed the address of",
	close: "closed",
	open: "opened",
	reopen: "opened again",
	replay: "sent again the deliveries of",
	stop: "stopped a delivery of",
	test: "tested",
	disable: "disabled",
	choose: "chose",
	first_device: "first ran on a device:",
};

const WHOLE: Readonly<Record<string, (name: string, entry: ChangeFacts) => SentencePart[]>> = {
	"device.override": (name, { after }) => {
		const version = after?.version;
		const channel = after?.channel;
		return [
			`set an override for device ${name}`,
			...(typeof version === "string" ? [": bundle ", { version }] : []),
			...(typeof channel === "string" ? [": channel ", { channel }] : []),
		];
	},
	"device.unset": (name) => [`removed the override of device ${name}`],
	"channel.yield_platforms": (name, { details }) => [
		"moved platforms from ",
		{ channel: name },
		...(typeof details.to === "string" ? [" to ", { channel: details.to }] : []),
	],
	"channel.rollout_notify": (_, entry) => releaseOf("rollout_failing", entry),
	"proposal.create": (_, entry) => releaseOf("proposal_created", entry),
	"proposal.reject": (_, entry) => releaseOf("proposal_rejected", entry),
	"proposal.withdraw": (_, entry) => releaseOf("proposal_withdrawn", entry),
	"proposal.approve": (_, entry) => releaseOf("proposal_approved", entry),
	"proposal.supersede": (name) => ["replaced the earlier proposal for ", { channel: name }],
	"access.denied": (name) => [`was denied access to ${name}`],
};

/** E.g. `changed Minimum reporting devices per step of production from 50 to 20`. */
export function changeSentence(entry: ChangeFacts): SentencePart[] {
	const { action, target } = entry;
	const name = target.name ?? target.id;
	const [thing = action, ...rest] = action.split(".");
	const verb = rest.join(".");
	const whole = Object.hasOwn(WHOLE, action) ? WHOLE[action] : undefined;
	if (whole !== undefined) return whole(name, entry);
	const kind = releaseKind(entry);
	if (kind !== undefined) return releaseOf(kind, entry);
	const named: SentencePart =
		target.type === "channel" ? { channel: name } : target.type === "bundle" ? { version: name } : name;
	const changes = settingChanges(entry);
	const [only] = changes;
	if (verb === "update" && only !== undefined) {
		return changes.length > 1
			? [`changed ${changes.length} settings of `, named]
			: [`changed ${only.label} of `, named, ` from ${only.before ?? "none"} to ${only.after ?? "none"}`];
	}
	const type =
		target.type === "channel" || target.type === "bundle" ? thing : (THINGS[thing] ?? thing.replaceAll("_", " "));
	return [`${VERBS[verb] ?? verb.replaceAll("_", " ")} ${type} `, named];
}
