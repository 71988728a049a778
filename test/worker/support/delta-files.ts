/** A bundle's manifest as a delta upload leaves it, without the uploads. */
import { type TestApp, testEnv } from "./world";

/** Gives a bundle a manifest of these files, of one byte each. */
export async function addTestFiles(app: TestApp, bundleId: number, names: readonly string[]): Promise<void> {
	const statements = names.flatMap((name) => {
		const path = `delta/${bundleId}/${name}`;
		return [
			testEnv.DB.prepare(
				"INSERT INTO delta_objects (app_id, path, object_key, size_bytes, last_claimed_at_ms) VALUES (?, ?, ?, 1, 0)",
			).bind(app.uuid, path, `objects/${bundleId}/${name}`),
			testEnv.DB.prepare(
				"INSERT INTO bundle_files (bundle_id, app_id, file_name, file_hash, path) VALUES (?, ?, ?, 'abc', ?)",
			).bind(bundleId, app.uuid, name, path),
		];
	});
	await testEnv.DB.batch(statements);
}

/** Takes the zip of a bundle away with its size, as `--delta-only` never uploads one. */
export async function removeTestZip(bundleId: number): Promise<void> {
	await testEnv.DB.prepare("UPDATE bundles SET object_key = NULL, size_bytes = NULL WHERE id = ?").bind(bundleId).run();
}

/** Gives a bundle the files of another one too, as the upload of an almost equal version does. */
export async function shareTestFiles(fromId: number, toId: number): Promise<void> {
	await testEnv.DB.prepare(
		"INSERT INTO bundle_files SELECT ?, app_id, file_name, file_hash, path FROM bundle_files WHERE bundle_id = ?",
	)
		.bind(toId, fromId)
		.run();
}
