/**
 * Names of request fields on the screens: the label of a channel's setting, another name, or the
 * words of the field itself.
 */
import { ACCEPTANCE_FIELDS, DELIVERY_FIELDS } from "../../../src/domain/updates/channel-fields";

const NAMES: Readonly<Record<string, string>> = {
	...Object.fromEntries(
		Object.values({ ...DELIVERY_FIELDS, ...ACCEPTANCE_FIELDS }).map(({ field, label }) => [field, label]),
	),
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

/** `body.rolloutPercentage` and `body.rollout_percentage` → `rollout percentage`. */
export function fieldLabel(path: string): string {
	const [last = path] = path
		.split(".")
		.filter((part) => !/^\d+$/.test(part))
		.slice(-1);
	if (Object.hasOwn(NAMES, last)) return NAMES[last] ?? last;
	return last
		.replaceAll("_", " ")
		.replaceAll(/([a-z])([A-Z])/g, (_, end: string, begin: string) => `${end} ${begin.toLowerCase()}`);
}
