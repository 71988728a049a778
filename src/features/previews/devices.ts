/**
 * The number of devices that last reported a bundle of a preview. Null: the telemetry database does
 * not answer.
 */
import type { AppId } from "../../authz/decide";
import type { PreviewRow } from "../../db/previews";
import { reportedVersions, tryTelemetry } from "../../db/telemetry-reads";
import type { Deps } from "../../deps";

export type CountedPreview<Row extends PreviewRow> = Row & { readonly devices: number | null };

/** @param rows previews of one app */
export async function withDevices<Row extends PreviewRow>(
	deps: Pick<Deps, "telemetry" | "deadline" | "log">,
	rows: readonly Row[],
): Promise<readonly CountedPreview<Row>[]> {
	const [first] = rows;
	if (first === undefined) return [];
	const namesOf = (row: Row) => JSON.parse(row.bundle_names) as string[];
	const names = rows.flatMap(namesOf);
	const reported =
		names.length === 0
			? []
			: await tryTelemetry(deps, first.telemetry_binding, reportedVersions(first.app_id as AppId, names));
	const devicesOf = new Map(reported?.map(({ name, devices }) => [name, devices]));
	return rows.map((row) => ({
		...row,
		devices: reported === undefined ? null : namesOf(row).reduce((sum, name) => sum + (devicesOf.get(name) ?? 0), 0),
	}));
}
