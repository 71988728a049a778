/**
 * Settings of stock clients that this server does not implement, by request. They are refused by
 * name (`setting_not_supported`) instead of being ignored, except for values that describe what the
 * server does anyway. Taken from @capgo/cli 8.68.1 and the public API that it uses;
 * test/worker/http/stock-settings.test.ts sends every setting of that CLI.
 */
import * as v from "valibot";
import { ApiError } from "../../errors";

interface RefusedSetting {
	/** Accepted values, because the server behaves that way; null and absence are always accepted. */
	readonly accepts?: readonly (boolean | number | string)[];
	/** The reason and the remedy; ends the sentence of the error. */
	readonly remedy: string;
}

const NO_PICTURES = "this server stores no images; send the https address of one as icon_url with PUT /app/:app_id";
const NO_NATIVE_BUILDS = "this server builds no native apps; leave it out";
const NO_TWO_FACTOR_RULE =
	"this server has no passwords that need a second factor: people sign in with passkeys, codes by e-mail, or your identity provider; leave it out";
const NO_PASSWORDS = "this server has no passwords; leave it out";
const NO_ENCRYPTION_RULE =
	"the server does not enforce encryption; encrypt with `bundle upload --key-v2`, and devices refuse bundles that their key cannot open";

const APP_PROFILE: Readonly<Record<string, RefusedSetting>> = {
	build_timeout_seconds: { remedy: NO_NATIVE_BUILDS },
};
const ORGANIZATION_RULES: Readonly<Record<string, RefusedSetting>> = {
	enforcing_2fa: { accepts: [false], remedy: NO_TWO_FACTOR_RULE },
	password_policy_config: { remedy: NO_PASSWORDS },
	enforce_encrypted_bundles: { accepts: [false], remedy: NO_ENCRYPTION_RULE },
	required_encryption_key: { accepts: [""], remedy: NO_ENCRYPTION_RULE },
};

export const REFUSED_SETTINGS = {
	"POST /app": APP_PROFILE,
	"PUT /app/:app_id": APP_PROFILE,
	"POST /organization": ORGANIZATION_RULES,
	"PUT /organization": ORGANIZATION_RULES,
	"PATCH apps": { build_timeout_seconds: { remedy: NO_NATIVE_BUILDS } },
	"storage upload": { icon: { remedy: NO_PICTURES } },
	"update notification": {
		send_update_notification: {
			remedy: "this server sends no push notifications; devices find the update at their next check",
		},
	},
	"automatic version": {
		auto_bump: {
			remedy: "level `ai` needs a service that this server does not have; use major, minor, patch or metadata",
		},
	},
	"two-factor check": { enforcing_2fa: { remedy: NO_TWO_FACTOR_RULE } },
	"password check": { password_policy_config: { remedy: NO_PASSWORDS } },
	"download channels": {
		default_download_channel: {
			remedy:
				"name the public channel: `channel set <channel> --state default` makes one public, `--state normal` makes it private",
		},
	},
} as const satisfies Readonly<Record<string, Readonly<Record<string, RefusedSetting>>>>;

export type SettingsRequest = keyof typeof REFUSED_SETTINGS;

const settingsOf = (request: SettingsRequest): Readonly<Record<string, RefusedSetting>> => REFUSED_SETTINGS[request];

const anyValue = v.optional(v.unknown());

/** The unsupported settings as body fields, so that they reach `refuseSettings`. */
export function refusedFields(request: SettingsRequest): Record<never, typeof anyValue> {
	return Object.fromEntries(Object.keys(settingsOf(request)).map((field) => [field, anyValue]));
}

/** @throws {ApiError} `setting_not_supported` for the first unsupported setting in the body */
export function refuseSettings(request: SettingsRequest, body: Readonly<Record<string, unknown>>): void {
	for (const [field, { accepts = [] }] of Object.entries(settingsOf(request))) {
		const value = body[field];
		if (value === undefined || value === null || (accepts as readonly unknown[]).includes(value)) continue;
		throw settingNotSupported(request, field);
	}
}

export function settingNotSupported(request: SettingsRequest, field: string): ApiError {
	const { remedy = "leave it out" } = settingsOf(request)[field] ?? {};
	return new ApiError("setting_not_supported", `${field} is not supported: ${remedy}.`, { moreInfo: { field } });
}
