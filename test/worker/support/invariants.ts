/**
 * Invariants between D1 and R2 that hold after any crash: no channel without its bundle's bytes, no
 * bundle without its object, no object that D1 does not know, and no channel that serves another
 * bundle than its history shows. `settled` adds the invariants that hold after unfinished work has
 * expired and been swept.
 */
import type { Selectable } from "kysely";
import { query } from "../../../src/db/client";
import { GOES_LIVE } from "../../../src/db/live-entries";
import type { Schema } from "../../../src/db/schema";
import { emptyObjectKey } from "../../../src/storage/objects";
import { readAll, rows, storedBytes, storedKeys } from "./bytes";
import { sha256Hex } from "./world";

/**
 * Every violation in the app's part of the database and the bucket, in words; empty when all is
 * well.
 */
export async function violations(appUuid: string, { settled = false } = {}): Promise<string[]> {
	const found: string[] = [];
	const [bundles, channels, uploads, deltaObjects, files, garbage, bindings, apps, entries, previews] = await readAll(
		query.selectFrom("bundles").selectAll().where("app_id", "=", appUuid),
		query.selectFrom("channels").selectAll().where("app_id", "=", appUuid),
		query.selectFrom("uploads").selectAll().where("app_id", "=", appUuid),
		query.selectFrom("delta_objects").selectAll().where("app_id", "=", appUuid),
		query.selectFrom("bundle_files").selectAll().where("app_id", "=", appUuid),
		query.selectFrom("garbage_objects").selectAll().where("object_prefix", "like", `${appUuid}/%`),
		query
			.selectFrom("role_bindings")
			.leftJoin("channels", "channels.id", "role_bindings.channel_id")
			.select(["role_bindings.id", "channels.id as channel"])
			.where("role_bindings.app_id", "=", appUuid)
			.where("role_bindings.channel_id", "is not", null),
		query.selectFrom("apps").select("id").where("id", "=", appUuid),
		historyOf(appUuid),
		query.selectFrom("previews").selectAll().where("app_id", "=", appUuid),
	);
	const appExists = apps.length > 0;
	const keys = await storedKeys(`${appUuid}/`);
	// An organization that is removed for good goes in steps: its app's objects are garbage before the
	// last row that knows them has gone.
	const isGoing = garbage.some((row) => row.object_prefix === `${appUuid}/`);
	if (isGoing && appExists && !(await isInDeletedOrganization(appUuid)))
		found.push("all of an app is garbage that is there");

	for (const bundle of isGoing ? [] : bundles) {
		const what = `${bundle.status} bundle ${bundle.name}`;
		if (bundle.status !== "ready" && bundle.object_key !== null) found.push(`${what} points to an object`);
		if (settled && bundle.status === "pending") found.push(`${what} remains`);
		if (bundle.status !== "ready" || bundle.storage_provider !== "r2") continue;
		if (bundle.object_key === null) {
			if (!files.some((file) => file.bundle_id === bundle.id)) found.push(`${what} has neither object nor files`);
			continue;
		}
		const bytes = await storedBytes(bundle.object_key);
		if (bytes === undefined) found.push(`${what} lost its object`);
		else if (bytes.length !== bundle.size_bytes) found.push(`${what} has another size than its object`);
		else if ((await sha256Hex(bytes)) !== bundle.sha256) found.push(`${what} has other bytes than its SHA-256`);
	}
	const ready = new Set(bundles.filter((bundle) => bundle.status === "ready").map((bundle) => bundle.id));
	for (const channel of channels) {
		for (const id of [channel.version_id, channel.rollout_version_id]) {
			if (id !== null && !ready.has(id)) found.push(`channel ${channel.name} points to a bundle that is not ready`);
		}
	}
	found.push(...historyMismatches(channels, entries, bundles));
	for (const preview of previews) {
		const has = channels.some(({ id }) => id === preview.channel_id);
		if (has !== (preview.state === "open"))
			found.push(`${preview.state} preview ${preview.number} ${has ? "has" : "lacks"} a channel`);
		const left = bundles.filter(({ preview_id, status }) => preview_id === preview.id && status !== "deleted");
		if (preview.state !== "open") found.push(...left.map(({ name }) => `bundle ${name} outlives its preview`));
	}
	for (const file of isGoing ? [] : deltaObjects) {
		const bytes = await storedBytes(file.object_key);
		if (bytes?.length !== file.size_bytes) found.push(`delta file ${file.path} lost its object`);
	}
	for (const binding of bindings) {
		if (binding.channel === null) found.push(`binding ${binding.id} names a channel that is gone`);
	}
	const wholes = new Set<string>([
		...bundles.flatMap((bundle) => (bundle.object_key === null ? [] : [bundle.object_key])),
		...deltaObjects.map((file) => file.object_key),
		...(appExists ? [emptyObjectKey(appUuid)] : []),
	]);
	const prefixes = [
		...uploads.filter((upload) => upload.completed_at_ms === null).map((upload) => upload.object_prefix),
		...garbage.map((row) => row.object_prefix),
	];
	for (const key of keys) {
		const known = wholes.has(key) || prefixes.some((prefix) => key.startsWith(prefix));
		if (!known) found.push(`object ${key} is unknown to D1`);
		if (settled && !wholes.has(key)) found.push(`object ${key} remains though nothing uses it`);
	}
	for (const { object_prefix } of garbage) {
		const inUse = [...wholes].find((key) => key.startsWith(object_prefix));
		if (inUse !== undefined && !isGoing) found.push(`object ${inUse} is in use and garbage`);
		if (settled) found.push(`garbage ${object_prefix} remains`);
	}
	if (settled) for (const upload of uploads) found.push(`upload ${upload.id} remains`);
	return found;
}

const historyOf = (appUuid: string) =>
	query.selectFrom("channel_history").selectAll().where("app_id", "=", appUuid).orderBy("id", "desc");

/**
 * Mismatches between a channel's history and its live bundle or rollout, and rollback targets that
 * are deleted or duplicate.
 */
export async function historyViolations(appUuid: string): Promise<string[]> {
	const [channels, entries, bundles] = await readAll(
		query.selectFrom("channels").selectAll().where("app_id", "=", appUuid),
		historyOf(appUuid),
		query.selectFrom("bundles").selectAll().where("app_id", "=", appUuid),
	);
	return historyMismatches(channels, entries, bundles);
}

function historyMismatches(
	channels: readonly Selectable<Schema["channels"]>[],
	entries: readonly Selectable<Schema["channel_history"]>[],
	bundles: readonly Selectable<Schema["bundles"]>[],
): string[] {
	const ready = bundles.filter(({ status }) => status === "ready");
	const found: string[] = [];
	for (const channel of channels) {
		const own = entries.filter(({ channel_id }) => channel_id === channel.id);
		const live = own.find(({ action }) => GOES_LIVE.includes(action));
		if (live === undefined) found.push(`channel ${channel.name} has no history`);
		else if (live.version_id !== channel.version_id)
			found.push(`channel ${channel.name} serves what its history does not`);
		const targets = own.filter(({ rollback_target }) => rollback_target === 1);
		if (new Set(targets.map(({ version_id }) => version_id)).size < targets.length)
			found.push(`channel ${channel.name} offers a rollback to one bundle twice`);
		for (const { version_id } of targets) {
			if (version_id !== null && !ready.some(({ id }) => id === version_id))
				found.push(`channel ${channel.name} offers a rollback to a bundle that is gone`);
		}
		if (!targets.some(({ version_id }) => version_id === channel.version_id))
			found.push(`channel ${channel.name} does not know its live bundle as a target`);
		const of = (entry: (typeof own)[number]) => entry.action.startsWith("rollout_");
		const moved = own.find(of);
		const ended = ["rollout_finished", "rollout_rolled_back", "rollout_replaced"];
		if ((moved === undefined || ended.includes(moved.action)) !== (channel.rollout_id === null))
			found.push(`channel ${channel.name} has another rollout than its history`);
		else if (channel.rollout_id !== null) {
			if (moved?.version_id !== channel.rollout_version_id)
				found.push(`channel ${channel.name} rolls out another bundle`);
			if (moved?.rollout_percentage_bps !== channel.rollout_percentage_bps)
				found.push(`channel ${channel.name} has another share than its history`);
		}
	}
	return found;
}

async function isInDeletedOrganization(appUuid: string): Promise<boolean> {
	const found = query
		.selectFrom("apps")
		.innerJoin("organizations", "organizations.id", "apps.owner_org")
		.select("apps.id")
		.where("apps.id", "=", appUuid)
		.where("organizations.deleted_at_ms", "is not", null);
	return (await rows(found)).length > 0;
}
