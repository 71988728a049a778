/**
 * Names of versions for people. The API calls the build of the store `builtin`, and a version that
 * the app never had `unknown`.
 */
const NAMES: Readonly<Record<string, string>> = { builtin: "Store build", unknown: "Unknown version" };

export const versionText = (version: string) => NAMES[version] ?? version;

/** Whether the version is a bundle, so that it has a page. */
export const isBundle = (version: string) => NAMES[version] === undefined;
