/**
 * Requests of the stock CLI for services that are not here. Each is refused by name, in a sentence that the CLI prints, because an
 * unknown path would leave its user with no reason and no remedy. The list is closed, like that of the requests that work.
 */
import * as v from "valibot";
import { endpoint } from "../../api/endpoint";
import { type SettingsRequest, settingNotSupported } from "../../api/stock-settings";
import { PREFIX } from "./postgrest";

function refusal<const Path extends string>(path: Path, option: string, request: SettingsRequest, field: string) {
	return endpoint({
		method: "POST",
		path,
		tag: "Stock CLI",
		summary: `${option}: refused by name`,
		access: { anyKey: "Nothing is read or written." },
		response: v.null(),
		errors: ["setting_not_supported"],
		example: {},
		async handle() {
			throw settingNotSupported(request, field);
		},
	});
}

/** `app add --icon` goes on without a picture; `app set --icon` ends with the message. */
export const uploadPicture = refusal(
	`${PREFIX}/storage/v1/object/images/:path{.+}`,
	"app add and app set --icon",
	"storage upload",
	"icon",
);
export const updateNotification = refusal(
	"/notifications/update-check",
	"--send-update-notification",
	"update notification",
	"send_update_notification",
);
export const bumpLevel = refusal(
	"/bundle/ai_bump_level",
	"bundle upload --auto-bump ai",
	"automatic version",
	"auto_bump",
);
export const twoFactorCheck = refusal(
	`${PREFIX}/rest/v1/rpc/has_2fa_enabled`,
	"organization set --enforce-2fa",
	"two-factor check",
	"enforcing_2fa",
);
export const passwordCheck = refusal(
	`${PREFIX}/rest/v1/rpc/check_org_members_password_policy`,
	"organization set --password-policy",
	"password check",
	"password_policy_config",
);
