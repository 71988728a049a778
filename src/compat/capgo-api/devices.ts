/**
 * Devices as Capgo's scripts name them. A list with one of its parameters, or with the header `capgo_api`, is answered by cursor; otherwise
 * as this server lists devices.
 */
import * as v from "valibot";
import { devicePageFields, devicePageSchema, pageDevices } from "../../features/devices/pages";
import { listDevices, setDevice } from "../../features/devices/routes";
import type { RawInput } from "../../http/scope";
import { bodyOf, digits, type Fields, isForCapgo, recordsWith, withForm, withRecordFields } from "./form";

/** Fields that devices do not report, and the id of a bundle whose version they do. */
const ABSENT = { version: v.null(), install_source: v.null(), country_code: v.null() } as const;
const withAbsent = () => ({ version: null, install_source: null, country_code: null });

const pages = withForm(pageDevices, {
	response: () =>
		v.strictObject({ ...devicePageSchema.entries, data: withRecordFields(devicePageSchema.entries.data, ABSENT) }),
	answer: (own) => ({
		...(own as Fields),
		data: (own as { data: readonly Fields[] }).data.map((one) => ({ ...one, ...withAbsent() })),
	}),
});

const isByCursor = ({ query, headers }: RawInput) =>
	query.device_id === undefined &&
	(isForCapgo({ headers }) || Object.keys(devicePageFields).some((name) => query[name] !== undefined));

export const listDevicesForm = withForm(listDevices, {
	query: { entries: devicePageFields, translate: (fields) => fields },
	forms: { instead: (raw) => (isByCursor(raw) ? pages : undefined) },
	response: (own) => v.union([withRecordFields(own, ABSENT), pages.response as v.GenericSchema]),
	answer: recordsWith(withAbsent),
	description:
		"With `cursor`, `limit`, `customIdMode`, `updated_at` or `order`, or with the header `capgo_api`, the answer is `{data, nextCursor, hasMore}`: `nextCursor` is the `cursor` of the next page, `customIdMode` lists devices with a custom id, `updated_at` those that changed later, and `order` sorts by that time.",
});

export const setDeviceForm = withForm(setDevice, {
	forms: {
		read(raw) {
			const body = bodyOf(raw);
			return body.version_id === undefined ? raw : { ...raw, body: { ...body, version_id: digits(body.version_id) } };
		},
	},
	description: "`version_id` may be the version of the bundle instead of its id.",
});
