/**
 * Every screen of the dashboard and its dialogs: screenshots are taken of them, and tests check
 * each of them.
 */
import { strToU8 } from "fflate";
import type { Page } from "playwright-core";
import { APP, deviceId, type Stage } from "./dashboard";
import { changeProduction, choose, HEALTHY, setByHand } from "./dashboard-screen-states";

export interface PicturedScreen {
	readonly name: string;
	path(stage: Stage): string;
	prepare?(page: Page): Promise<void>;
	/** Its dialog changes what other screens show. */
	readonly changes?: true;
	/** A phone has other controls, so it is opened again at that width. */
	readonly isDrawnPerWidth?: true;
}

const ofOrganization = (screen: string) => (stage: Stage) => `/organizations/${stage.product.orgId}/${screen}`;
const ofApp = (screen: string) => () => `/apps/${APP}/${screen}`;

export const SCREENS: readonly PicturedScreen[] = [
	{ name: "apps", path: ofOrganization("apps") },
	{
		name: "app-create",
		path: ofOrganization("apps"),
		prepare: (page) => page.getByRole("button", { name: "New app" }).click(),
	},
	{ name: "organizations", path: () => "/organizations" },
	{
		name: "organizations-deleted",
		changes: true,
		path: () => "/organizations",
		async prepare(page) {
			await page.evaluate(async () => {
				const body = JSON.stringify({ name: "Closed shop" });
				const headers = { "content-type": "application/json" };
				const made = await fetch("/organization", { method: "PUT", headers, body });
				const { id } = (await made.json()) as { id: string };
				await fetch(`/organization?orgId=${id}`, { method: "DELETE" });
			});
			await page.reload();
			await page.getByRole("button", { name: "Undo the deletion of Closed shop" }).first().waitFor();
		},
	},
	{ name: "overview", path: ofApp("releases") },
	{ name: "channels", path: ofApp("channels") },
	{
		name: "channel-create",
		path: ofApp("channels"),
		prepare: (page) => page.getByRole("button", { name: "New channel" }).click(),
	},
	{ name: "channel", path: ofApp("channels/production") },
	{ name: "channel-rollout", path: ofApp("channels/beta") },
	{
		name: "channel-rollout-settings",
		path: ofApp("channels/beta"),
		prepare: (page) => page.getByRole("button", { name: "Rollout settings" }).click(),
	},
	{
		name: "channel-rollout-health",
		path: ofApp("channels/beta"),
		changes: true,
		async prepare(page) {
			await page.route(/\/channel\/rollout\?.*channel=beta/, async (route) => {
				const answer = (await (await route.fetch()).json()) as object;
				await route.fulfill({ json: { ...answer, ...HEALTHY } });
			});
			await page.reload();
			await page.getByText("8 of 1,460 devices failed").waitFor();
		},
	},
	{
		name: "channel-everything",
		path: ofApp("channels/beta?history=everything"),
		async prepare(page) {
			await page.getByRole("list", { name: "Everything that changed beta" }).waitFor();
		},
	},
	{
		name: "channel-release",
		path: ofApp("channels/production"),
		async prepare(page) {
			await page.getByRole("button", { name: "Release", exact: true }).click();
			await page.getByRole("combobox", { name: "Bundle" }).fill("1.1.0");
			await page.keyboard.press("Escape");
			await page.getByText("devices will change version").first().waitFor();
		},
	},
	{
		name: "channel-history",
		changes: true,
		path: ofApp("channels/production"),
		async prepare(page) {
			for (const change of [
				["/channel", { version: "1.1.0" }],
				["/channel/rollback", { reason: "Login loop on Android 9" }],
				["/channel", { rolloutVersion: "1.1.0", rolloutEnabled: true, rolloutPercentage: 5 }],
				["/channel", { rolloutPercentage: 25 }],
			] as const) {
				await page.evaluate(changeProduction, change);
			}
			await page.reload();
			await page.getByRole("button", { name: "More about 1.1.0 on production" }).click();
			await page.getByRole("menuitem", { name: "Return to 1.1.0 anyway" }).click();
			await page.getByRole("menu").waitFor({ state: "detached" });
			await page.getByText("will change version").waitFor();
		},
	},
	{
		name: "channel-delete",
		path: ofApp("channels/production"),
		prepare: (page) => page.getByRole("button", { name: "Delete channel" }).click(),
	},
	{
		name: "channel-delete-bundles",
		path: ofApp("channels/pr-128"),
		async prepare(page) {
			await page.getByRole("button", { name: "Delete channel" }).click();
			await page.getByRole("dialog").getByRole("checkbox").check();
			await page.getByText("the bundle 1.2.0-pr.128").first().waitFor();
		},
	},
	{ name: "bundles", path: ofApp("bundles") },
	{
		name: "bundle-upload",
		path: ofApp("bundles"),
		prepare: (page) => page.getByRole("button", { name: "Upload bundle" }).click(),
	},
	{
		name: "bundle-upload-refused",
		path: ofApp("bundles"),
		async prepare(page) {
			await page.getByRole("button", { name: "Upload bundle" }).click();
			await choose(page, { dist: { "index.html": strToU8("<html>") } });
			await page.getByText("index.html is in the folder").waitFor();
		},
	},
	{
		name: "bundle-upload-warning",
		path: ofApp("bundles"),
		async prepare(page) {
			await page.getByRole("button", { name: "Upload bundle" }).click();
			await choose(page, { "index.html": strToU8("<html>") });
			await page.getByText("No call of notifyAppReady() was found").waitFor();
		},
	},
	{
		name: "bundle-release",
		path: ofApp("bundles/1.1.0"),
		async prepare(page) {
			await page.getByRole("button", { name: "Release", exact: true }).click();
			await page.getByText("devices will change version").first().waitFor();
		},
	},
	{
		name: "bundles-unused",
		path: ofApp("bundles"),
		prepare: (page) => page.getByRole("button", { name: "Delete unused bundles" }).click(),
	},
	{
		name: "bundle-delete",
		path: ofApp("bundles/1.2.0-pr.128"),
		prepare: (page) => page.getByRole("button", { name: "Delete bundle" }).click(),
	},
	{
		name: "bundle-compare",
		path: ofApp("bundles/1.1.0"),
		async prepare(page) {
			await page.getByRole("combobox", { name: "Compare with" }).fill("1.0.0");
			await page.keyboard.press("Escape");
			await page.getByRole("button", { name: "Compare" }).click();
			await page.getByRole("region", { name: "1.1.0 compared with 1.0.0" }).waitFor();
		},
	},
	{ name: "devices", path: ofApp("devices") },
	{
		name: "device",
		path: ofApp(`devices/${deviceId(0)}`),
		prepare: (page) => page.getByText("At its next check").waitFor(),
	},
	{
		name: "device-refused",
		path: ofApp(`devices/${deviceId(4)}`),
		changes: true,
		async prepare(page) {
			await page.evaluate(changeProduction, ["/channel", { version: "1.1.0", allow_prod: false }] as const);
			await page.reload();
			await page.getByText("is off for production builds").first().waitFor();
			await page.evaluate(changeProduction, ["/channel", { version: "1.0.0", allow_prod: true }] as const);
		},
	},
	{
		name: "events",
		path: ofApp("events"),
		prepare: (page) => page.getByRole("list", { name: "Events" }).waitFor(),
	},
	{
		name: "events-filtered",
		path: ofApp("events?kind=install&platform=ios"),
		prepare: (page) => page.getByRole("button", { name: "Clear filters" }).waitFor(),
	},
	{
		name: "device-override",
		path: ofApp(`devices/${deviceId(0)}`),
		prepare: (page) => page.getByRole("button", { name: "Set override" }).click(),
	},
	{
		name: "devices-set",
		changes: true,
		path: ofApp("devices"),
		async prepare(page) {
			await page.evaluate(setByHand, { app_id: APP, device_id: deviceId(5) });
			await page.reload();
			await page.getByText("Bundle override: 1.1.0").waitFor();
		},
	},
	{
		name: "device-unset",
		changes: true,
		path: ofApp(`devices/${deviceId(5)}`),
		async prepare(page) {
			await page.evaluate(setByHand, { app_id: APP, device_id: deviceId(5) });
			await page.reload();
			await page.getByRole("button", { name: "Remove override" }).click();
			await page.getByRole("dialog").getByText("the bundle 1.1.0").waitFor();
		},
	},
	{ name: "keys", path: ofOrganization("keys") },
	{
		name: "key-create",
		path: ofOrganization("keys"),
		prepare: (page) => page.getByRole("button", { name: "New key" }).click(),
	},
	{
		name: "key",
		path: ofOrganization("keys"),
		async prepare(page) {
			await page.getByRole("link", { name: "First admin key" }).click();
			await page.getByRole("button", { name: "Revoke" }).waitFor();
		},
	},
	{ name: "members", path: ofOrganization("members") },
	{
		name: "member-invite",
		path: ofOrganization("members"),
		prepare: (page) => page.getByRole("button", { name: "Invite member" }).click(),
	},
	{
		name: "member-role",
		path: ofOrganization("members"),
		prepare: (page) => page.getByRole("button", { name: "Add role for" }).first().click(),
	},
	{ name: "roles", path: ofOrganization("roles") },
	{ name: "groups", path: ofOrganization("groups") },
	{
		name: "group-new",
		path: ofOrganization("groups"),
		prepare: (page) => page.getByRole("button", { name: "New group" }).click(),
	},
	{
		name: "role-new",
		path: ofOrganization("roles"),
		prepare: (page) => page.getByRole("button", { name: "New role" }).click(),
	},
	{
		name: "settings",
		path: ofOrganization("settings"),
		async prepare(page) {
			await page.getByRole("switch", { name: "Keys must expire" }).check();
			await page.getByText(/will stop working|was not accepted/).waitFor();
		},
	},
	{
		name: "organization-delete",
		path: ofOrganization("settings"),
		async prepare(page) {
			await page.getByRole("button", { name: "Delete My organization" }).click();
			await page.getByRole("dialog").getByText("API key").waitFor();
		},
	},
	{ name: "audit-log", path: ofOrganization("changes") },
	{ name: "organization-statistics", path: ofOrganization("statistics") },
	{ name: "app-statistics", path: ofApp("statistics") },
	{ name: "app-changes", path: ofApp("changes") },
	{
		name: "connect",
		path: ofApp("connect"),
		prepare: (page) => page.getByRole("button", { name: "Show: Point the app at this server" }).click(),
	},
	{
		name: "connect-previews",
		path: ofApp("connect"),
		async prepare(page) {
			await page.getByRole("button", { name: "Show: Release from your CI" }).click();
			await page.getByLabel("Command").selectOption("capgo");
			await page.getByLabel("Trigger").selectOption("preview");
		},
	},
	{ name: "previews", path: ofApp("previews") },
	{ name: "publishers", path: ofApp("publishers") },
	{
		name: "publisher-add",
		path: ofApp("publishers"),
		prepare: (page) => page.getByRole("button", { name: "Add publisher" }).click(),
	},
	{ name: "webhooks", path: ofOrganization("webhooks") },
	{ name: "app-webhooks", path: ofApp("webhooks") },
	{ name: "app-settings", path: ofApp("settings") },
	{
		name: "app-delete",
		path: ofApp("settings"),
		async prepare(page) {
			await page.getByRole("button", { name: /^Delete / }).click();
			await page.getByRole("dialog").getByRole("listitem").first().waitFor();
		},
	},
	{ name: "account", path: () => "/account" },
	{
		name: "account-email",
		path: () => "/account",
		async prepare(page) {
			await page.getByRole("button", { name: "Change e-mail address" }).click();
			await page.getByLabel("New e-mail address").waitFor();
		},
	},
	{
		name: "navigation",
		isDrawnPerWidth: true,
		path: ofApp("releases"),
		async prepare(page) {
			const more = page.getByRole("button", { name: "More" });
			if (await more.isVisible()) await more.click();
			// It can be clicked, because its transition has ended.
			await page.getByRole("link", { name: "Bundles" }).first().click({ trial: true });
		},
	},
	{
		name: "palette",
		path: ofApp("releases"),
		async prepare(page) {
			await page.keyboard.press("Control+k");
			await page.getByRole("combobox", { name: "Search" }).fill("1.1");
			await page.getByRole("listbox").getByRole("option").first().waitFor();
		},
	},
	{
		name: "shortcuts",
		path: ofApp("releases"),
		async prepare(page) {
			await page.keyboard.press("?");
			await page.getByRole("dialog").waitFor();
		},
	},
	{
		name: "app-switcher",
		isDrawnPerWidth: true,
		path: ofApp("releases"),
		async prepare(page) {
			await page.getByRole("button", { name: "Switch app" }).click();
			await page.getByRole("link", { name: "New app" }).waitFor();
		},
	},
	{ name: "no-such-screen", path: () => "/nowhere" },
];
