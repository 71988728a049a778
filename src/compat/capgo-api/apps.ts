/**
 * Apps as Capgo's scripts name them.
 */
import * as v from "valibot";
import { createApp, getApp, listApps, updateApp } from "../../features/apps/routes";
import type { RawInput } from "../../http/scope";
import { bodyOf, type Fields, recordsWith, withForm, withRecordFields } from "./form";

/**
 * Fields that this server does not have: versions live on channels, apps belong to no person, and
 * nobody is guided through a first start.
 */
const ABSENT = {
	user_id: v.null(),
	last_version: v.null(),
	transfer_history: v.null(),
	need_onboarding: v.literal(false),
	existing_app: v.literal(false),
} as const;
const withAbsent = () => ({
	user_id: null,
	last_version: null,
	transfer_history: null,
	need_onboarding: false,
	existing_app: false,
});

const shown = {
	response: (own: v.GenericSchema) => withRecordFields(own, ABSENT),
	answer: recordsWith(withAbsent),
};

/**
 * An icon that an address can show; anything else has no effect, because the server stores no
 * pictures.
 */
const isIconAddress = (icon: unknown) =>
	typeof icon === "string" && /^https:/i.test(icon) && URL.canParse(icon) && new URL(icon).username === "";

const withIcon = ({ icon, ...fields }: Fields): Fields =>
	isIconAddress(icon) && fields.icon_url === undefined ? { ...fields, icon_url: icon } : fields;

const anything = v.optional(v.unknown());
/** Fields about the first steps of a developer in another dashboard. */
const ONBOARDING = { need_onboarding: anything, existing_app: anything };
/** The stock CLI says with these how its user came here, and asks for nothing. */
const ORIGIN_OF_CLI = { created_from_onboarding: anything, onboarding: anything, onboarding_completed_at: anything };

function withoutEffect(raw: RawInput): string[] {
	const { icon, need_onboarding, existing_app } = bodyOf(raw);
	return [
		...(icon == null || icon === "" || isIconAddress(icon) ? [] : ["icon"]),
		...(need_onboarding == null || need_onboarding === false ? [] : ["need_onboarding"]),
		...(existing_app == null || existing_app === false ? [] : ["existing_app"]),
	];
}

const profile = {
	body: { entries: { icon: anything, ...ONBOARDING, ...ORIGIN_OF_CLI }, translate: withIcon },
	forms: { withoutEffect },
	...shown,
	description: "`icon` with an https address is `icon_url`.",
};

export const listAppsForm = withForm(listApps, shown);
export const getAppForm = withForm(getApp, shown);
export const createAppForm = withForm(createApp, profile);
export const updateAppForm = withForm(updateApp, profile);
