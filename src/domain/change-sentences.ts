/**
 * Sentences about entries of the audit log. Changes of what a channel serves read as in the release timeline; a change of settings names
 * the setting, its old value and its new one. The actor stands before the sentence.
 */
import { releaseSentence, type SentencePart, STORE_BUILD, shareText } from "./release-sentences";

type Fields = Readonly<Record<string, unknown>>;

export interface ChangeFacts {
	readonly action: string;
	readonly target: { readonly type: string; readonly id: string; readonly name: string | null };
	readonly before: Fields | null;
	readonly after: Fields | null;
	readonly details: Fields;
}

export interface SettingChange {
	readonly field: string;
	readonly label: string;
	/** Null: not set before, or not set any more. */
	readonly before: string | null;
	readonly after: string | null;
}

const LABELS: Readonly<Record<string, string>> = {
	version: "Live bundle",
	rolloutVersion: "Rollout bundle",
	rolloutPercentageBps: "Rollout share",
	rolloutEnabled: "Rollout",
	rolloutPausedAtMs: "Rollout paused at",
	rolloutPauseReason: "Reason of the pause",
	rolloutNotice: "Notice of the health gate",
	public: "Default channel for new devices",
	ios: "iOS",
	android: "Android",
	electron: "Electron",
	allow_device_self_set: "Devices can join",
	allow_emulator: "Emulators",
	allow_device: "Physical devices",
	allow_dev: "Development builds",
	allow_prod: "Production builds",
	disableAutoUpdate: "Updates not offered across",
	disableAutoUpdateUnderNative: "No bundles older than the store build",
	updatePackage: "Form of the bundle",
	rolloutStepsBps: "Rollout steps",
	rolloutStepMinutes: "Minutes per step",
	rolloutStepMinDevices: "Minimum devices per step",
	rolloutCountNewDevices: "Count new devices",
	rolloutDevicesPerNetwork: "Devices per network that count",
	autoPauseEnabled: "Health gate",
	autoPauseWindowMinutes: "Window of the health gate in minutes",
	autoPauseFailureRateBps: "Limit of failures",
	autoPauseConfidenceBps: "Confidence",
	autoPauseMinAttempts: "Minimum reports",
	autoPauseMinFailures: "Minimum failures",
	autoPauseAction: "Action of the health gate",
	autoPauseCooldownMinutes: "Minutes between two pauses",
	requireCompatibleBundle: "Only bundles that fit the store builds",
	protected: "Protected channel",
	promoters: "Who may release",
	requiresApproval: "Releases need approval",
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
	return typeof value === "string" ? value : JSON.stringify(value);
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
	"channel.rollout_notify": (name, { details }) => [
		"found too many failures in the rollout",
		...(typeof details.version === "string" ? [" of ", { version: details.version }] : []),
		" on ",
		{ channel: name },
	],
	"proposal.create": (name, { after }) => proposalSentence("proposal_created", name, after),
	"proposal.reject": (name, { details }) => proposalSentence("proposal_rejected", name, details),
	"proposal.withdraw": (name, { details }) => proposalSentence("proposal_withdrawn", name, details),
	"proposal.approve": (name) => ["approved the proposal for ", { channel: name }],
	"proposal.supersede": (name) => ["replaced the earlier proposal for ", { channel: name }],
	"access.denied": (name) => [`was denied access to ${name}`],
};

function proposalSentence(action: string, channel: string, from: Fields | null): SentencePart[] {
	const version = from?.version ?? from?.rolloutVersion;
	return releaseSentence({
		action,
		channel: { name: channel, isPreview: false },
		version: typeof version === "string" ? version : null,
		previousVersion: null,
		rolloutPercentageBps: null,
	});
}

const textOf = (value: unknown) => (typeof value === "string" ? value : null);
const numberOf = (value: unknown) => (typeof value === "number" ? value : null);

/** The kind of a change of what a channel serves; undefined: the entry changes settings only. */
function releaseKind({ action, target, before, after }: ChangeFacts): string | undefined {
	if (target.type !== "channel" || after === null) return undefined;
	const hasVersion = Object.hasOwn(after, "version");
	if (action === "channel.create") return "created";
	if (action === "channel.rollback") return hasVersion ? "rollback" : "rollout_rolled_back";
	if (action === "channel.rollout_rollback") return "rollout_rolled_back";
	if (action === "channel.rollout_pause") return "rollout_paused";
	if (hasVersion) {
		const isFinished = typeof after.version === "string" && after.version === before?.rolloutVersion;
		return isFinished ? "rollout_finished" : "promotion";
	}
	if (textOf(after.rolloutVersion) !== null) return "rollout_started";
	if (after.rolloutVersion === null) return "rollout_rolled_back";
	if (after.rolloutEnabled === true) return "rollout_started";
	if (after.rolloutEnabled === false) return "rollout_stopped";
	if (Object.hasOwn(after, "rolloutPausedAtMs")) {
		return after.rolloutPausedAtMs === null ? "rollout_resumed" : "rollout_paused";
	}
	if (numberOf(after.rolloutPercentageBps) !== null) {
		const isRaised = Number(after.rolloutPercentageBps) > Number(before?.rolloutPercentageBps ?? 0);
		return isRaised ? "rollout_raised" : "rollout_lowered";
	}
	return undefined;
}

/** Kinds whose bundle is the channel's own; the others are about the bundle of its rollout. */
const OF_CHANNEL = ["created", "promotion", "rollback", "rollout_finished"];

/** The sentence of a release out of what its entry replaced. An entry about a rollout need not name the bundle. */
export function releaseOf(
	kind: string,
	{ target, before, after, details }: Omit<ChangeFacts, "action">,
): SentencePart[] {
	const isOfChannel = OF_CHANNEL.includes(kind);
	const rollout = textOf(after?.rolloutVersion) ?? textOf(before?.rolloutVersion) ?? textOf(details.version);
	const parts = releaseSentence({
		action: kind,
		channel: { name: target.name ?? target.id, isPreview: false },
		version: isOfChannel ? textOf(after?.version) : rollout,
		previousVersion: textOf(before?.version),
		rolloutPercentageBps:
			numberOf(after?.rolloutPercentageBps) ??
			numberOf(details.percentage_bps) ??
			numberOf(before?.rolloutPercentageBps),
	});
	return isOfChannel || rollout !== null ? parts : parts.map((part) => (part === STORE_BUILD ? "its bundle" : part));
}

/** E.g. `changed Minimum devices per step of production from 50 to 20`. */
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
