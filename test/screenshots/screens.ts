/** The screens that pictures are made of, and what is opened on them first. */
import type { Page } from "playwright-core";
import { APP, type Stage } from "../node/support/dashboard";

export interface PicturedScreen {
	readonly name: string;
	path(stage: Stage): string;
	prepare?(page: Page): Promise<void>;
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
	{ name: "overview", path: ofApp("overview") },
	{ name: "no-such-screen", path: () => "/nowhere" },
];
