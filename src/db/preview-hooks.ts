/**
 * Statements about incoming webhooks. Only `hookById` and `SEALED_HOOKS` return sealed secrets.
 */
import { type CompiledQuery, type Insertable, type Selectable, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { query } from "./client";
import type { PreviewRow } from "./previews";
import { previewRows } from "./previews";
import { appIdOf } from "./public-app-id";
import type { SealedRows } from "./reseal";
import type { PreviewHooksTable } from "./schema";

export type HookListRow = Omit<Selectable<PreviewHooksTable>, "sealed_secret" | "previous_sealed_secret">;

const LISTED = [
	"id",
	"app_id",
	"provider",
	"previous_until_ms",
	"last_delivery_at_ms",
	"created_by",
	"created_at_ms",
	"updated_at_ms",
] as const;

/** The app's hooks, oldest first. */
export function hooksOfApp(publicAppId: string): CompiledQuery<HookListRow> {
	return query
		.selectFrom("preview_hooks")
		.select(LISTED)
		.where("app_id", "=", appIdOf(publicAppId))
		.orderBy("created_at_ms")
		.orderBy("id")
		.compile();
}

export interface HookRow extends Selectable<PreviewHooksTable> {
	readonly public_app_id: string;
	readonly org_id: string;
}

/**
 * A hook of an app that is not deleted, with its sealed secrets: for the verification of a
 * delivery.
 */
export function hookById(id: string, provider: "github" | "gitlab"): CompiledQuery<HookRow> {
	return sql<HookRow>`SELECT h.*, a.app_id AS public_app_id, a.owner_org AS org_id FROM preview_hooks h
		JOIN apps a ON a.id = h.app_id JOIN organizations o ON o.id = a.owner_org AND o.deleted_at_ms IS NULL
		WHERE h.id = ${id} AND h.provider = ${provider} AND a.app_id <> a.id`.compile(query);
}

export const insertHook = (values: Insertable<PreviewHooksTable>): CompiledQuery =>
	query.insertInto("preview_hooks").values(values).compile();

/** The new secret replaces the current one, which stays valid until `previousUntilMs`. */
export const rotateHook = (
	appId: AppId,
	id: string,
	sealedSecret: string,
	previousUntilMs: number,
	nowMs: number,
): CompiledQuery =>
	query
		.updateTable("preview_hooks")
		.set((eb) => ({
			previous_sealed_secret: eb.ref("sealed_secret"),
			previous_until_ms: previousUntilMs,
			sealed_secret: sealedSecret,
			updated_at_ms: nowMs,
		}))
		.where("app_id", "=", appId)
		.where("id", "=", id)
		.compile();

export const deleteHook = (appId: AppId, id: string): CompiledQuery =>
	query.deleteFrom("preview_hooks").where("app_id", "=", appId).where("id", "=", id).compile();

/** The app moves to another organization, whose members do not know the secrets. */
export const deleteHooksOfApp = (appId: AppId): CompiledQuery =>
	query.deleteFrom("preview_hooks").where("app_id", "=", appId).compile();

export const hookExists = (appId: AppId, id: string) =>
	sql<boolean>`EXISTS (SELECT 1 FROM preview_hooks WHERE app_id = ${appId} AND id = ${id})`;

export const noteDelivery = (id: string, nowMs: number): CompiledQuery =>
	query.updateTable("preview_hooks").set({ last_delivery_at_ms: nowMs }).where("id", "=", id).compile();

/** Previews that a webhook's pull request may mean: of the repository's id, or of its name. */
export function previewsOfPullRequest(
	appId: AppId,
	{ repository, repositoryId, number }: PullRequestName,
): CompiledQuery<PreviewRow> {
	return sql<PreviewRow>`${previewRows()} WHERE p.app_id = ${appId} AND p.number = ${number}
		AND (p.repository = ${repository} OR p.repository_id = ${repositoryId}) LIMIT 10`.compile(query);
}

interface PullRequestName {
	readonly repository: string;
	readonly repositoryId: string;
	readonly number: number;
}

/** A sealed secret opens only for its hook. */
export const hookPurpose = (id: string) => `preview hook ${id}`;

type SealedHook = Pick<Selectable<PreviewHooksTable>, "id" | "sealed_secret" | "previous_sealed_secret">;

/** The sealed secrets of hooks; of all apps. */
export const SEALED_HOOKS: SealedRows<SealedHook> = {
	name: "hook",
	select: (secretId, limit) =>
		query
			.selectFrom("preview_hooks")
			.select(["id", "sealed_secret", "previous_sealed_secret"])
			.where((eb) =>
				eb.or([
					eb("sealed_secret", "not like", `${secretId}.%`),
					eb("previous_sealed_secret", "not like", `${secretId}.%`),
				]),
			)
			.orderBy("id")
			.limit(limit)
			.compile(),
	async replace({ id, sealed_secret: before, previous_sealed_secret: previous }, sealAgain) {
		const after = {
			sealed_secret: await sealAgain(before, hookPurpose(id)),
			previous_sealed_secret: previous === null ? null : await sealAgain(previous, hookPurpose(id)),
		};
		return query
			.updateTable("preview_hooks")
			.set(after)
			.where("id", "=", id)
			.where("sealed_secret", "=", before)
			.compile();
	},
};
