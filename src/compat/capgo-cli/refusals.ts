/**
 * Requests of the stock CLI for services that are not here. Each is refused by name, in a sentence that the CLI prints, because an
 * unknown path would leave its user with no reason and no remedy. They reach nothing, so they are no endpoints and need no key.
 */
import { type SettingsRequest, settingNotSupported } from "../../api/stock-settings";
import type { ApiError } from "../../errors";
import { PREFIX } from "./postgrest";

const REFUSED: readonly (readonly [path: RegExp, request: SettingsRequest, field: string])[] = [
	// `app add --icon` goes on without a picture; `app set --icon` ends with the message.
	[new RegExp(`^${PREFIX}/storage/v1/object/images/.`), "storage upload", "icon"],
	[/^\/notifications\/update-check$/, "update notification", "send_update_notification"],
	[/^\/bundle\/ai_bump_level$/, "automatic version", "auto_bump"],
	[new RegExp(`^${PREFIX}/rest/v1/rpc/has_2fa_enabled$`), "two-factor check", "enforcing_2fa"],
	[new RegExp(`^${PREFIX}/rest/v1/rpc/check_org_members_password_policy$`), "password check", "password_policy_config"],
];

/** The refusal of a request that no endpoint takes; undefined where the stock CLI sends no such request. */
export function refusedRequest(method: string, path: string): ApiError | undefined {
	if (method !== "POST" && method !== "PUT") return undefined;
	const found = REFUSED.find(([pattern]) => pattern.test(path));
	return found === undefined ? undefined : settingNotSupported(found[1], found[2]);
}
