/**
 * Schemas of the bodies that devices send. device-body.ts reads the plain ones without them; a test
 * holds both equal.
 */
import * as v from "valibot";
import { PLATFORMS } from "../../domain/updates/model";
import { readVersion } from "../../domain/updates/version";
import { optional, publicAppId, textUpTo, uuid } from "../../http/schemas";
import {
	LONGEST_CUSTOM_ID,
	LONGEST_INSTALL_SOURCE,
	LONGEST_KEY_ID,
	LONGEST_OS_VERSION,
	LONGEST_TEXT,
	LONGEST_VERSION,
	LONGEST_VERSION_CODE,
} from "./device-body";

/** A text of the app; longer ones are cut. */
const cutText = (longest: number) =>
	v.pipe(
		v.string(),
		v.transform((value) => value.slice(0, longest)),
	);
const versionText = v.pipe(
	v.string(),
	v.minLength(1, "must not be empty"),
	v.maxLength(LONGEST_VERSION, `must have at most ${LONGEST_VERSION} characters`),
);

/** The body of an update check. */
export const deviceFields = {
	app_id: publicAppId,
	device_id: uuid,
	// Empty is the store build, for which some clients have no name.
	version_name: textUpTo(LONGEST_VERSION),
	version_build: versionText,
	platform: v.picklist(PLATFORMS, `must be one of ${PLATFORMS.join(", ")}`),
	plugin_version: v.pipe(
		versionText,
		v.check((version) => readVersion(version) !== null, 'must be a version such as "8.51.23"'),
	),
	is_emulator: optional(v.boolean()),
	is_prod: optional(v.boolean()),
	defaultChannel: optional(textUpTo(LONGEST_TEXT)),
	key_id: optional(textUpTo(LONGEST_KEY_ID)),
	// Truncated rather than refused, because texts of the app do not affect the decision.
	custom_id: optional(cutText(LONGEST_CUSTOM_ID)),
	install_source: optional(textUpTo(LONGEST_INSTALL_SOURCE)),
	version_os: optional(cutText(LONGEST_OS_VERSION)),
	version_code: optional(cutText(LONGEST_VERSION_CODE)),
};

export const deviceBody = v.object(deviceFields);

export const EXAMPLE_DEVICE = {
	app_id: "com.example.app",
	device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
	version_name: "builtin",
	version_build: "1.0.0",
	platform: "android",
	plugin_version: "8.51.23",
	is_emulator: false,
	is_prod: true,
	defaultChannel: "pr-128",
};
