/**
 * `Link` headers of the dashboard's paths: the files of a path's screen, and the answers that it
 * asks for first. The browser requests them together with the entry script, so that a screen is
 * complete after three rounds: the page, files and answers, and answers that need these. A path
 * that is missing here works, one round later.
 */

/** Module of each screen below dashboard/src/screens, by its path. `*` is one part of a path. */
const SCREENS: Readonly<Record<string, string>> = {
	account: "account/account",
	"connect/cli": "keys/cli-login",
	organizations: "organization/organizations",
	"organizations/*/apps": "apps/apps",
	"organizations/*/members": "organization/members",
	"organizations/*/groups": "organization/groups",
	"organizations/*/roles": "organization/roles",
	"organizations/*/groups/*": "organization/group",
	"organizations/*/keys": "keys/keys",
	"organizations/*/keys/*": "keys/key",
	"organizations/*/statistics": "statistics/statistics",
	"organizations/*/changes": "audit/audit-log",
	"organizations/*/webhooks": "webhooks/webhooks",
	"organizations/*/webhooks/*": "webhooks/webhook",
	"organizations/*/settings": "organization/settings",
	"apps/*/releases": "apps/overview",
	"apps/*/channels": "channels/channels",
	"apps/*/channels/*": "channels/channel",
	"apps/*/channels/*/releases/*": "releases/release",
	"apps/*/previews": "previews/previews",
	"apps/*/bundles": "bundles/bundles",
	"apps/*/bundles/*": "bundles/bundle",
	"apps/*/devices": "devices/devices",
	"apps/*/devices/*": "devices/device",
	"apps/*/events": "devices/events",
	"apps/*/statistics": "statistics/statistics",
	"apps/*/changes": "audit/audit-log",
	"apps/*/publishers": "publishers/publishers",
	"apps/*/webhooks": "webhooks/webhooks",
	"apps/*/webhooks/*": "webhooks/webhook",
	"apps/*/connect": "connect/connect",
	"apps/*/settings": "apps/settings",
};

/**
 * Answers that a path needs whatever it shows; `:first` is the part of the path for the first `*`.
 */
const ANSWERS: Readonly<Record<string, readonly string[]>> = {
	apps: ["/app/:first"],
	"apps/*/releases": ["/channel?app_id=:first&page=0", "/bundle?app_id=:first&page=0", "/device?app_id=:first&page=0"],
	"organizations/*/apps": ["/statistics/apps?org_id=:first&page=0"],
};

/** The build's files by module, as in Vite's manifest. */
export type Manifest = Readonly<Record<string, { readonly file: string; readonly imports?: readonly string[] }>>;

const ENTRY = "index.html";
const PARTS = ["first", "second", "third"];

/** Rules of the file `_headers`. */
export function preloadRules(manifest: Manifest): string {
	const inEntry = filesOf(manifest, ENTRY);
	return Object.entries(SCREENS)
		.map(([path, screen]) => {
			const files = [...filesOf(manifest, `src/screens/${screen}.tsx`)].filter((file) => !inEntry.has(file));
			const answers = [...(ANSWERS[path.split("/")[0] ?? ""] ?? []), ...(ANSWERS[path] ?? [])];
			const links = [
				...files.map((file) => `</${file}>; rel=modulepreload`),
				...answers.map((address) => `<${address}>; rel=preload; as=fetch; crossorigin`),
			];
			let part = 0;
			const pattern = path.replaceAll("*", () => `:${PARTS[part++]}`);
			return `/dashboard/${pattern}\n  Link: ${links.join(", ")}\n`;
		})
		.join("");
}

/** The file of a module with those that it imports before it runs. */
export function filesOf(manifest: Manifest, module: string, found = new Set<string>()): Set<string> {
	const chunk = manifest[module];
	if (chunk === undefined)
		throw new Error(`the dashboard's build has no ${module}; correct its path in ${import.meta.url}`);
	if (found.has(chunk.file)) return found;
	found.add(chunk.file);
	for (const imported of chunk.imports ?? []) filesOf(manifest, imported, found);
	return found;
}
