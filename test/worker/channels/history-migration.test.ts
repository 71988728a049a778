/**
 * The migration of an installation that had channels before their history: it writes entries from the audit log and the live bundles, because
 * the first rollback after the upgrade needs a target.
 */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";

const { SECOND_DB, TEST_MIGRATIONS } = env as unknown as {
	SECOND_DB: D1Database;
	TEST_MIGRATIONS: Parameters<typeof applyD1Migrations>[1];
};

test("the migration seeds each channel's history from the audit log, and adds the live bundle if the log lacks it", async () => {
	await applyD1Migrations(
		SECOND_DB,
		TEST_MIGRATIONS.filter(({ name }) => name < "0015"),
	);
	const insert = (table: string, row: Record<string, string | number | null>) =>
		SECOND_DB.prepare(
			`INSERT INTO ${table} (${Object.keys(row).join(", ")}) VALUES (${Object.keys(row)
				.map(() => "?")
				.join(", ")})`,
		)
			.bind(...Object.values(row))
			.run();
	const times = { created_at_ms: 1, updated_at_ms: 1 };
	await insert("users", { id: "user", email: "a@example.com", created_at_ms: 1 });
	await insert("organizations", { id: "org", name: "org", created_by: "user", ...times });
	await insert("apps", { id: "app", app_id: "com.example.app", owner_org: "org", name: "app", ...times });
	const bundle = (id: number, name: string, at: number, deleted = false) =>
		insert("bundles", {
			...{ id, app_id: "app", name, status: deleted ? "deleted" : "ready", storage_provider: "r2", created_by: "user" },
			...{ deleted_at_ms: deleted ? at + 1 : null, created_at_ms: at, updated_at_ms: at },
		});
	await bundle(1, "1.0.0", 10, true);
	await bundle(2, "1.0.0", 50);
	await bundle(3, "1.1.0", 20);
	await bundle(4, "1.2.0", 30);
	for (const [id, name, version_id, updated_at_ms] of [
		[1, "production", 4, 90],
		[2, "silent", 3, 77],
		[3, "empty", null, 1],
	] as const) {
		await insert("channels", {
			...{ id, app_id: "app", name, version_id, created_by: "user", created_at_ms: 1, updated_at_ms },
		});
	}
	const entry = (at_ms: number, action: string, target: number, before: object | null, after: object | null) =>
		insert("audit_log", {
			...{ org_id: "org", at_ms, actor_type: "user", actor_id: "user", actor_name: "a@example.com", action },
			...{
				target_type: "channel",
				target_id: String(target),
				request_id: "r",
				app_uuid: "app",
				app_id: "com.example.app",
			},
			...{ before: before && JSON.stringify(before), after: after && JSON.stringify(after) },
		});
	await entry(5, "channel.create", 1, null, { public: true });
	await entry(15, "channel.update", 1, { version: null }, { version: "1.0.0" });
	await entry(25, "channel.promote", 1, { version: "1.0.0" }, { version: "1.1.0" });
	await entry(35, "channel.update", 1, { public: true }, { public: false });
	await entry(
		45,
		"channel.update",
		1,
		{ version: "1.1.0", rolloutVersion: "1.2.0" },
		{ version: "1.2.0", rolloutVersion: null },
	);
	await entry(46, "channel.update", 9, { version: "1.1.0" }, { version: "1.2.0" });
	await insert("audit_log", {
		...{ org_id: "org", at_ms: 1, actor_type: "system", actor_name: "sweep", action: "bundle.delete" },
		...{ target_type: "bundle", target_id: "1", request_id: "r" },
	});

	await applyD1Migrations(SECOND_DB, TEST_MIGRATIONS);

	const results = await SECOND_DB.prepare(
		`SELECT channel_id, at_ms, action, version_id, version_name, previous_version_name, actor_name, rollback_target
		FROM channel_history ORDER BY channel_id, id`,
	).raw();
	const ada = "a@example.com";
	expect(results).toEqual([
		[1, 5, "created", null, null, null, ada, 1],
		// The bundle that had the name then, not the one that has it now.
		[1, 15, "promotion", 1, "1.0.0", null, ada, 0],
		[1, 25, "promotion", 3, "1.1.0", "1.0.0", ada, 1],
		[1, 45, "rollout_finished", 4, "1.2.0", "1.1.0", ada, 1],
		[2, 77, "promotion", 3, "1.1.0", null, "Capstan", 1],
		[3, 1, "promotion", null, null, null, "Capstan", 1],
	]);
	const renamed = await SECOND_DB.prepare("SELECT actor_name FROM audit_log WHERE actor_type = 'system'").first();
	expect(renamed).toEqual({ actor_name: "Automatic clean-up" });
});
