/**
 * Errors of the API in the words of the screens, by code, where the API's own message names a
 * request or a field of one. An error without a sentence here is shown with its message. No screen
 * reads the text of a message.
 */

import type { CapstanError } from "../../../src/client/client";
import { problemsText } from "../../../src/domain/bundles/native-packages";
import { DELIVERY_DAYS } from "../../../src/domain/defaults";
import type { ErrorCode, ErrorReason } from "../../../src/errors";

type Facts = CapstanError["moreInfo"];
type Sentence = string | ((facts: Facts) => string);

const RELOAD = "Load the page again, then retry.";
const changed = (what: string) => `${what} changed by another request. ${RELOAD}`;
const missing = (what: string) => `${what} does not exist, or you may not see it.`;
const share = ({ percentage_bps }: Facts) => `${Number(percentage_bps) / 100} % of the devices`;
const seconds = ({ retryAfterSeconds }: Facts) =>
	typeof retryAfterSeconds === "number" ? `Try again in ${retryAfterSeconds} seconds.` : "Try again later.";

/** By the reason, if the error has one that is listed, else by the code. */
const SENTENCES: Readonly<Partial<Record<ErrorCode | ErrorReason, Sentence>>> = {
	account_changed: changed("Your membership in an organization was"),
	already_member: "This person is already a member.",
	api_key_not_found: missing("This key"),
	api_key_of_publisher: "This key belongs to a trusted publisher and has no secret; change the publisher.",
	app_id_already_exists: "An app with this id already exists; choose another id.",
	app_id_of_deleted_app:
		"A deleted app of this organization had this id, and devices may still run it. Ask an administrator to create the app or to restore the deleted one, or choose another id.",
	app_id_taken_since: "Another app has this id now; delete that app first, then restore this one.",
	sample_app_exists: "This organization has a sample app already. Remove it to add a new one.",
	app_not_found: missing("This app"),
	never_live_here: ({ version, channel }) =>
		`Bundle ${version} was never live on channel ${channel}, which requires approval. Propose it, or roll back to an earlier bundle of the channel.`,
	may_only_propose: ({ channel }) =>
		`You may only propose. Propose the earlier bundle for channel ${channel}, or have a person roll back.`,
	binding_not_found: "This role was removed meanwhile. Load the page again.",
	bundle_from_preview: ({ version, channel }) =>
		`A preview key uploaded ${version}, and this version does not name its preview. Check the bundle before you release it to ${channel}.`,
	bundle_incompatible: ({ version, live_version, channel, not_compared, packages }) =>
		not_compared === "bundle_lists_none"
			? `Bundle ${version} does not list its native packages, and channel ${channel} requires bundles that fit the live bundle ${live_version}. Upload it with the capstan command or the stock CLI, which list them.`
			: `Bundle ${version} does not fit the store builds of channel ${channel}, whose live bundle is ${live_version}: ${problemsText(packages as Parameters<typeof problemsText>[0])}. Release it to a channel for newer store builds, or have somebody who may change the channel turn off “Only bundles that fit the store builds”.`,
	bundle_not_found: ({ version }) =>
		version === undefined
			? "The app has no bundle with this version. Choose another one."
			: `Bundle ${version} does not exist. Choose another version.`,
	bundle_not_ready: "The bundle's upload is not complete.",
	bundle_not_signed:
		"The organization requires signed bundles, and no registered key verified this bundle. Upload it again with a signature, or register the key that it was signed with.",
	bundle_of_another_preview:
		"The bundle belongs to another preview, and would be deleted with it. Upload a bundle for this channel.",
	rollout_changed: changed("The channel's rollout was"),
	channel_delta_required:
		"The channel's update format asks for single files and a bundle on it has none. Upload the bundle with single files, or choose the update format “Zip and single files”.",
	channel_not_found: missing("This channel"),
	channel_is_protected: ({ channel }) =>
		`Channel ${channel} is protected and cannot be deleted. Have an administrator remove the protection first.`,
	channel_zip_required:
		"The channel's update format asks for a zip and a bundle on it has none. Upload the bundle with its zip, or choose the update format “Zip and single files”.",
	delivery_not_found: `The webhook has no such delivery, or it is older than ${DELIVERY_DAYS} days.`,
	delivery_not_waiting: "The delivery waits for no further attempt any more. Load the page again.",
	device_not_found: missing("This device"),
	group_changed: changed("The group, its members or its roles were"),
	group_not_found: missing("This group"),
	internal_error: "Something went wrong on our side. Include the request id when you report it.",
	invitation_changed: changed("The invitation was"),
	member_changed: changed("The member was"),
	member_not_found: "No member and no invitation of the organization has this address.",
	missing_rollout_version: "The channel has no rollout. Choose a bundle to roll out.",
	organization_changed: changed("The organization was"),
	organization_not_found: missing("This organization"),
	only_operator: "Only the operator (an owner of the first organization of this server) may do this; ask the operator.",
	passkey_not_found: "Your account does not have this passkey any more.",
	passkey_required: "This needs a sign-in with a passkey, and your account has none. Add one on your account's page.",
	policy_stops_every_admin_key:
		"This policy would suspend every key that owns or administers the organization. First regenerate one as a hashed key, or set its expiry within the limit.",
	preview_hook_not_found: missing("This webhook"),
	preview_not_found: missing("This preview"),
	proposal_not_found: missing("This proposal"),
	release_not_found: "The channel has no such release, or its entries are older than the newest 1,000 of its history.",
	publisher_not_found: missing("This publisher"),
	custom_role_limit: ({ limit }) => `An organization has at most ${limit} custom roles; delete unused ones.`,
	role_changed: changed("A role of the organization was"),
	role_in_use: "The role is in use. Choose another role for its holders, and remove it from the promoters of channels.",
	role_not_found: missing("This role"),
	older_than_rollout: (facts) =>
		`Bundle ${facts.version} is older than ${facts.rollout_version}, which is rolled out to ${share(facts)}, so its devices would return to an older bundle. End the rollout first, or release a newer version.`,
	newer_than_rollout: (facts) =>
		`Bundle ${facts.version} is newer than ${facts.rollout_version}, which is rolled out to ${share(facts)}, so its devices would return to an older bundle. End the rollout first.`,
	rollout_running: (facts) =>
		`Bundle ${facts.rollout_version} ${facts.paused === true ? "has a paused rollout" : "is rolled out"} to ${share(facts)} on channel ${facts.channel}. Finish the rollout, or roll it back first.`,
	service_unavailable: (facts) => `A storage service did not answer. ${seconds(facts)}`,
	session_not_found: "Your account does not have this session any more.",
	sign_in_method_not_found: "Your account is not linked to this provider, or this server does not offer it.",
	signing_key_already_exists: "The organization already has this public key.",
	signing_key_not_found: missing("This signing key"),
	signing_key_required:
		"An organization that requires signed bundles needs a signing key. Register one first, or stop requiring signed bundles.",
	too_many_requests: (facts) => `Too many requests. ${seconds(facts)}`,
	transfer_not_found: "This app is offered no longer, or you may not see the offer.",
	version_was_used: ({ version }) =>
		`Devices got ${version ?? "this version"} before its bundle was deleted, and load no other bytes under it. Choose another version.`,
	webhook_changed: changed("The webhook was"),
	webhook_disabled: "The webhook is disabled; enable it first.",
	webhook_not_found: missing("This webhook"),
};

/** The screen's sentence about an error; undefined if the API's message serves. */
export function errorSentence({ code, moreInfo }: CapstanError): string | undefined {
	const { reason } = moreInfo;
	const sentences: Readonly<Record<string, Sentence | undefined>> = SENTENCES;
	const key = typeof reason === "string" && Object.hasOwn(sentences, reason) ? reason : code;
	const sentence = Object.hasOwn(sentences, key) ? sentences[key] : undefined;
	return typeof sentence === "function" ? sentence(moreInfo) : sentence;
}
