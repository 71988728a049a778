/**
 * Devices as Capgo's scripts name them. A list with one of its parameters, or with the header
 * `capgo_api`, is answered by cursor; otherwise as this server lists devices.
 */
import * as v from "valibot";
import { deviceListSchema, deviceTotalsSchema, listDevices } from "../../features/devices/list";
import { devicePageFields, devicePageSchema, pageDevices } from "../../features/devices/pages";
import { setDevice } from "../../features/devices/routes";
import type { RawInput } from "../../http/scope";
import { bodyOf, digits, type Fields, isForCapgo, recordsWith, unlessTotals, withForm, withRecordFields } from "./form";

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

const hasTotals = ({ query }: RawInput) => query.totals === "true" && query.device_id === undefined;

const givenPageFields = ({ query }: RawInput) =>
	Object.keys(devicePageFields).filter((name) => query[name] !== undefined);

/** `order` is a parameter of both forms; with `totals` or `sort` it is the endpoint's own. */
const isByCursor = (raw: RawInput) =>
	raw.query.device_id === undefined &&
	!hasTotals(raw) &&
	(isForCapgo(raw) || (raw.query.sort === undefined && givenPageFields(raw).length > 0));

export const listDevicesForm = withForm(listDevices, {
	query: { entries: devicePageFields, translate: (fields) => fields },
	forms: {
		instead: (raw) => (isByCursor(raw) ? pages : undefined),
		withoutEffect: (raw) => (hasTotals(raw) ? givenPageFields(raw).filter((name) => name !== "order") : []),
	},
	response: () =>
		v.union([withRecordFields(deviceListSchema, ABSENT), deviceTotalsSchema, pages.response as v.GenericSchema]),
	answer: unlessTotals(recordsWith(withAbsent)),
	description: [
		"Without `totals`: with `cursor`, `limit`, `customIdMode`, `updated_at` or `order`, or with the",
		"header `capgo_api`, the answer is `{data, nextCursor, hasMore}`: `nextCursor` is the `cursor` of the",
		"next page, `customIdMode` lists devices with a custom id, `updated_at` those that changed later, and",
		"`order` sorts by that time.",
	],
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
