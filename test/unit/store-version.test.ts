/**
 * The store version that the page "Setup" assumes for an app: the highest that its devices
 * report, by number, of store builds if there are any.
 */
import { describe, expect, test } from "vitest";
import { newestStoreVersion } from "../../dashboard/src/screens/connect/store-version";

describe("the newest store version", () => {
	const seen = (version_build: string | null, is_prod: boolean | null = true, is_emulator: boolean | null = false) => ({
		version_build,
		is_prod,
		is_emulator,
	});

	test("is the highest that a device reported, by number and not by text", () => {
		expect(newestStoreVersion([seen("9.0.0"), seen("10.0.1"), seen("2.3.0")])).toBe("10.0.1");
		expect(newestStoreVersion([seen("2"), seen("1.9.9")])).toBe("2.0.0");
		expect(newestStoreVersion([seen("2.3 (77)"), seen(null), seen("builtin")])).toBe("2.3.0");
		expect(newestStoreVersion([seen("1.4.2"), seen("1.4.10"), seen("1.3.99")])).toBe("1.4.10");
	});

	test("counts developer and emulator builds only if there is no other", () => {
		expect(newestStoreVersion([seen("2.3.0"), seen("3.0.0", false), seen("4.0.0", true, true)])).toBe("2.3.0");
		expect(newestStoreVersion([seen("3.0.0", false)])).toBe("3.0.0");
		expect(newestStoreVersion([])).toBeUndefined();
	});
});
