/**
 * Usage and quotas of an organization and its apps.
 */
import * as v from "valibot";
import {
	appsOfOrganization,
	appUsagePage,
	invitationsOfOrganization,
	keysOfOrganization,
	openUploadsOfOrganization,
	quotaUse,
	storageOfOrganization,
} from "../../db/quotas";
import { DEFAULT_QUOTAS, type QuotaName } from "../../domain/quotas";
import { endpoint } from "../../http/endpoint";
import { pageBounds } from "../../http/paging";
import { PAGE_SIZE, pageNumber, uuid } from "../../http/schemas";
import { orgScope } from "../../http/scope";

const quotaSchema = v.strictObject({ name: v.string(), limit: v.number(), used: v.number() });
const EXAMPLE_ORG = "b7c1d3de-8f5a-4f43-93d3-1b0f6a4c9e21";
const example = (name: QuotaName, used: number) => ({ name, limit: DEFAULT_QUOTAS[name], used });

export const organizationUsage = endpoint({
	method: "GET",
	path: "/organization/usage",
	tag: "Organizations",
	summary: "Show the usage and quotas of an organization and its apps",
	description: [
		"`quotas` are those of the organization.",
		"`apps` lists its apps with their quotas, largest storage first, 50 per page; `more` is true if",
		"another page follows.",
		"Stored bytes include unfinished uploads and, for",
		"the organization, deleted apps until they are purged.",
		"A request that would exceed a quota gets 409 `quota_exceeded`.",
		"An operator sets limits with the variable QUOTAS.",
		"By default, an account may also create 100 organizations, a caller may have 5,000 unfinished",
		"uploads, and a preview key 50 channels and 500 bundles per app.",
	],
	access: { permission: "org.read", scope: orgScope("query.orgId") },
	query: v.object({ orgId: uuid, page: pageNumber }),
	response: v.strictObject({
		quotas: v.array(quotaSchema),
		apps: v.array(
			v.strictObject({
				id: v.string(),
				app_id: v.string(),
				name: v.string(),
				storage_bytes: v.number(),
				quotas: v.array(quotaSchema),
			}),
		),
		more: v.boolean(),
	}),
	errors: [],
	example: {
		query: { orgId: EXAMPLE_ORG },
		response: {
			quotas: [example("storage_bytes_per_organization", 83_886_080), example("apps_per_organization", 1)],
			apps: [
				{
					id: "3f1b8a52-64d1-4b0e-9c0e-0f6f3f1c7a10",
					app_id: "com.example.app",
					name: "Example",
					storage_bytes: 83_886_080,
					quotas: [example("channels_per_app", 5), example("bundles_per_app", 41), example("open_uploads_per_app", 0)],
				},
			],
			more: false,
		},
	},
	load: ({ query }, nowMs) => {
		const { limit, offset } = pageBounds(query.page);
		return {
			apps: appUsagePage(query.orgId, nowMs, limit, offset),
			quotas: organizationQuotas(query.orgId, nowMs).map(quotaUse),
		};
	},
	async handle({ deps, input, loaded, nowMs }) {
		const limits = deps.config.quotas;
		const { apps, quotas } = loaded;
		const shown = (name: QuotaName, used: number) => ({ name, limit: limits[name], used });
		return {
			quotas: organizationQuotas(input.query.orgId, nowMs).map(({ name }, index) =>
				shown(name, quotas[index]?.used ?? 0),
			),
			apps: apps.slice(0, PAGE_SIZE).map(({ id, app_id, name, storage_bytes, ...holds }) => ({
				id,
				app_id,
				name,
				storage_bytes,
				quotas: [
					shown("channels_per_app", holds.channels),
					shown("bundles_per_app", holds.bundles),
					shown("open_uploads_per_app", holds.open_uploads),
				],
			})),
			more: apps.length > PAGE_SIZE,
		};
	},
});

const organizationQuotas = (orgId: string, nowMs: number) => [
	storageOfOrganization(orgId),
	appsOfOrganization(orgId),
	keysOfOrganization(orgId),
	invitationsOfOrganization(orgId, nowMs),
	openUploadsOfOrganization(orgId, nowMs),
];
