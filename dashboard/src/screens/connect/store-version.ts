/** Store build versions as devices report them: "2.3.0", but also "2", "2.3" and "2.3.0 (77)". */

export interface StoreVersion {
	readonly major: number;
	readonly minor: number;
	readonly patch: number;
}

/** Version of the first build of a new Capacitor app. */
export const FIRST_STORE_VERSION = "1.0.0";

/** Undefined if the text does not begin with a number. */
export function parseStoreVersion(text: string): StoreVersion | undefined {
	const [found, major, minor, patch] = /^\s*v?(\d{1,15})(?:\.(\d{1,15}))?(?:\.(\d{1,15}))?/.exec(text) ?? [];
	return found === undefined
		? undefined
		: { major: Number(major), minor: Number(minor ?? 0), patch: Number(patch ?? 0) };
}

interface SeenDevice {
	readonly version_build: string | null;
	readonly is_prod: boolean | null;
	readonly is_emulator: boolean | null;
}

/**
 * The newest store build of these devices. Development builds and emulators count only if there is
 * nothing else.
 */
export function newestStoreVersion(devices: readonly SeenDevice[]): string | undefined {
	const fromStores = devices.filter(({ is_prod, is_emulator }) => is_prod !== false && is_emulator !== true);
	let newest: StoreVersion | undefined;
	for (const { version_build } of fromStores.length > 0 ? fromStores : devices) {
		const version = parseStoreVersion(version_build ?? "");
		if (version !== undefined && (newest === undefined || isNewer(version, newest))) newest = version;
	}
	return newest === undefined ? undefined : `${newest.major}.${newest.minor}.${newest.patch}`;
}

function isNewer(one: StoreVersion, other: StoreVersion): boolean {
	if (one.major !== other.major) return one.major > other.major;
	return one.minor !== other.minor ? one.minor > other.minor : one.patch > other.patch;
}
