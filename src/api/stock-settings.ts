/**
 * The settings of stock clients that this server does not act upon, by the request that carries them: the one list from which they are
 * refused by name (`setting_not_supported`). A field of no client is ignored as ever; a field in this list is never answered with a
 * silent success, except for the values that ask for what the server does anyway. Read from @capgo/cli 8.68.1 and the public API that it
 * was written for; test/worker/stock-settings.test.ts sends every setting of that CLI, these and the ones that work.
 */
import * as v from "valibot";
import { ApiError } from "../errors";

interface RefusedSetting {
	/** Values that mean what the server does anyway; null and absence are accepted everywhere. */
	readonly accepts?: readonly (boolean | number | string)[];
	/** Why, and what to do instead; ends the error's sentence. */
	readonly remedy: string;
}

const NO_PICTURES = "this server keeps no pictures; send the https address of one as icon_url with PUT /app/:app_id";
const NO_ONBOARDING = "there is no onboarding to steer; leave it out";
const NO_CACHED_DRAW =
	"a device's place in a rollout is computed at each check and never cached, so there is no time to set; leave it out";
const NO_NATIVE_BUILDS = "this server builds no native apps; leave it out";
const NO_TWO_FACTOR_RULE =
	"there are no passwords to add a second factor to: people sign in with passkeys, codes by e-mail, or your identity provider; leave it out";
const NO_PASSWORDS = "nobody has a password here; leave it out";
const NO_ENCRYPTION_RULE =
	"the server does not enforce encryption; encrypt with `bundle upload --key-v2`, and devices refuse what their key does not open";

const APP_PROFILE: Readonly<Record<string, RefusedSetting>> = {
	icon: { accepts: [""], remedy: NO_PICTURES },
	need_onboarding: { accepts: [false], remedy: NO_ONBOARDING },
	existing_app: { accepts: [false], remedy: NO_ONBOARDING },
	build_timeout_seconds: { remedy: NO_NATIVE_BUILDS },
};
const ORGANIZATION_RULES: Readonly<Record<string, RefusedSetting>> = {
	enforcing_2fa: { accepts: [false], remedy: NO_TWO_FACTOR_RULE },
	password_policy_config: { remedy: NO_PASSWORDS },
	enforce_encrypted_bundles: { accepts: [false], remedy: NO_ENCRYPTION_RULE },
	required_encryption_key: { accepts: [""], remedy: NO_ENCRYPTION_RULE },
};
const ROLLOUT_CACHE: RefusedSetting = { accepts: [0], remedy: NO_CACHED_DRAW };

export const REFUSED_SETTINGS = {
	"POST /channel": { rolloutCacheTtlSeconds: ROLLOUT_CACHE, rollout_cache_ttl_seconds: ROLLOUT_CACHE },
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
		auto_bump: { remedy: "level `ai` needs a service that is not here; name a level: major, minor, patch or metadata" },
	},
	"two-factor check": { enforcing_2fa: { remedy: NO_TWO_FACTOR_RULE } },
	"password check": { password_policy_config: { remedy: NO_PASSWORDS } },
	"download channels": {
		default_download_channel: {
			remedy:
				"say which channel is public by its name: `channel set <channel> --state default` makes one public, `--state normal` makes it private",
		},
	},
} as const satisfies Readonly<Record<string, Readonly<Record<string, RefusedSetting>>>>;

export type SettingsRequest = keyof typeof REFUSED_SETTINGS;

const settingsOf = (request: SettingsRequest): Readonly<Record<string, RefusedSetting>> => REFUSED_SETTINGS[request];

const anyValue = v.optional(v.unknown());

/** The refused settings as fields of the request's body, so that they reach `refuseSettings`. */
export function refusedFields(request: SettingsRequest): Record<never, typeof anyValue> {
	return Object.fromEntries(Object.keys(settingsOf(request)).map((field) => [field, anyValue]));
}

/** @throws {ApiError} `setting_not_supported` for the first refused setting that the body asks for */
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
