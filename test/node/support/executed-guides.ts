/**
 * The guides whose commands tests run: docs.test.ts those of the first two lists, docs-ci.test.ts
 * the last one.
 */

/**
 * They talk to the server with curl, one after another; the first one begins with a single
 * organization, to which the next ones add.
 */
export const REQUEST_GUIDES = ["cli", "access", "previews", "rollouts", "webhooks", "capgo-api"] as const;

/** They run in the project of an app (guide-scene.ts), with these commands before. */
export const PROJECT_GUIDES = {
	"first-update": "",
	"how-a-device-decides": "release",
	"does-not-update": "release and check",
	encryption: "release",
	"stores-and-versions": "release",
	faq: "release",
	statistics: "release",
} as const satisfies Readonly<Record<string, "" | "release" | "release and check">>;

export const EXECUTED_GUIDES: readonly string[] = [...REQUEST_GUIDES, ...Object.keys(PROJECT_GUIDES), "ci"];
