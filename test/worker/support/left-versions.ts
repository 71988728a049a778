/**
 * The versions that devices leave because of a change, from the answers that they got before and
 * after it: the oracle of `from_versions` in POST /channel/what_if.
 */

export interface LeftVersion {
	readonly version_name: string;
	readonly devices: number;
}

interface Device {
	readonly device_id: string;
	readonly [field: string]: unknown;
}

/** Number of devices for each pair of answers before and after. */
export function tally(pairs: Iterable<readonly [pair: string, devices: number]>): Record<string, number> {
	const counted: Record<string, number> = {};
	for (const [pair, devices] of pairs) counted[pair] = (counted[pair] ?? 0) + devices;
	return counted;
}

/** One entry for each device that is given another bundle than before. */
export function versionsLeft(
	fleet: readonly Device[],
	versions: readonly string[],
	before: ReadonlyMap<string, string>,
	after: ReadonlyMap<string, string>,
): [version: string, devices: number][] {
	const moved = fleet.filter(({ device_id }) => {
		const now = after.get(device_id) ?? "";
		return now !== before.get(device_id) && [...versions, "builtin"].includes(now);
	});
	return moved.map(({ version_name }) => [version_name === "" ? "builtin" : String(version_name), 1]);
}
