/**
 * What keys get that differ by more than their role: on their own work and on another's, of a sibling app, of another organization,
 * expired. One readable table, test/key-matrix.txt, beside test/role-matrix.txt, where every request is about an administrator's work.
 */
import { expect, test } from "vitest";
import { allEndpoints } from "../../src/app";
import { type Makers, REQUESTS } from "./support/requests";
import { createTestApp, createTestKey, createWorld, type TestApp } from "./support/world";

const keyOf = (endpoint: { method: string; path: string }) => `${endpoint.method} ${endpoint.path}`;
const guarded = allEndpoints.filter((endpoint) => !("public" in endpoint.access));

/** Some four hundred requests, and what each of them needs. */
const TIME_LIMIT_MS = 60_000;
const EXPIRES_AT = "2026-11-21T08:00:00.001Z";

interface Column {
	readonly title: string;
	readonly key: string;
	readonly makers?: Makers;
}

test("what each key gets at each endpoint is what test/key-matrix.txt says; review a change, then run it with -u", {
	timeout: TIME_LIMIT_MS,
}, async () => {
	const world = await createWorld();
	const elsewhere = await createWorld();
	const sibling = await createTestApp(world, "sibling");
	const expired = await createTestKey(world, "org_super_admin", undefined, { expires_at: EXPIRES_AT });
	world.clock.nowMs += 1;

	async function columnsOf(app: TestApp): Promise<Column[]> {
		const keys = await Promise.all(
			["app_admin", "app_developer", "app_uploader", "app_preview", "app_preview"].map(
				async (role) => (await createTestKey(world, role, app)).text,
			),
		);
		const [admin = "", developer = "", uploader = "", preview = "", otherPreview = ""] = keys;
		const by = (key: string): Makers => ({ bundle: key, channel: key });
		return [
			// The control: what this key gets shows that the request itself is good.
			{ title: "org_super_admin", key: world.adminKey },
			{ title: "app_admin, own work", key: admin, makers: by(admin) },
			{ title: "app_developer, own work", key: developer, makers: by(developer) },
			// It cannot make channels.
			{ title: "app_uploader, own work", key: uploader, makers: { bundle: uploader, channel: world.adminKey } },
			{ title: "app_preview, own work", key: preview, makers: by(preview) },
			{ title: "app_preview, another's", key: preview, makers: by(otherPreview) },
			{ title: "sibling app's admin", key: (await createTestKey(world, "app_admin", sibling)).text },
			{ title: "other organization", key: elsewhere.adminKey },
			{ title: "expired", key: expired.text },
		];
	}

	let app = await createTestApp(world);
	let columns = await columnsOf(app);
	const rows: string[][] = [["", ...columns.map((column) => column.title)]];
	for (const endpoint of guarded) {
		const cells: string[] = [];
		for (const index of columns.keys()) {
			if (keyOf(endpoint) === "DELETE /app/:app_id") {
				app = await createTestApp(world);
				columns = await columnsOf(app);
			}
			const column = columns[index];
			const request = await REQUESTS[keyOf(endpoint)]?.(world, app, column?.makers);
			if (column === undefined || request === undefined) throw new Error(`no request for ${keyOf(endpoint)}`);
			const { path, ...options } = request;
			cells.push(String((await world.request(endpoint.method, path, { ...options, key: column.key })).status));
		}
		if (keyOf(endpoint) === "DELETE /app/:app_id") {
			app = await createTestApp(world);
			columns = await columnsOf(app);
		}
		rows.push([keyOf(endpoint), ...cells]);
	}

	expect(rows, "the table is not whole").toHaveLength(guarded.length + 1);
	const shut = rows.slice(1).filter((row) => !row.slice(1).some((cell) => cell.startsWith("2")));
	expect(shut, "a row in which nobody succeeds shows nothing").toEqual([]);
	await expect(`${aligned(rows)}\n`).toMatchFileSnapshot("../key-matrix.txt");
});

function aligned(rows: readonly (readonly string[])[]): string {
	const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
	return rows
		.map((row) =>
			row
				.map((cell, column) => cell.padEnd(widths[column] ?? 0))
				.join("  ")
				.trimEnd(),
		)
		.join("\n");
}
