/**
 * One run of a flow whose calls fail: its app, its client, and the states that must hold
 * afterwards, whether the client came back or not.
 */

import { expect } from "vitest";
import { createApp } from "../../../src/app";
import { query } from "../../../src/db/client";
import type { Deps } from "../../../src/deps";
import { bundleOf, register, rows } from "./bytes";
import { type Answer, requestThrough, type TestApp, type World } from "./world";

export const VERSION = "1.0.0";
export const BYTES = bundleOf(3000);

export const ENDINGS = ["the client continues", "the client starts again", "the client never returns"] as const;
export const WITHOUT_MEMORY = ["the client continues", "the client never returns"] as const;
export type Ending = (typeof ENDINGS)[number];

/** State of one run of a flow: an app with a key, and what a client keeps between its requests. */
export interface Stage {
	readonly world: World;
	readonly app: TestApp;
	readonly key: string;
	readonly bytes: Uint8Array;
	readonly checksum: string;
	readonly memory: { uploadUrl?: string; location?: string };
	readonly ids: { bundle?: number; channel?: number };
}

export type Client = Pick<World, "request"> & { readonly deps: Deps };

export interface Flow {
	readonly name: string;
	readonly role?: string;
	readonly bytes?: Uint8Array;
	/**
	 * Default: those of a client that keeps nothing between its requests. For one, starting again is
	 * the same as continuing.
	 */
	readonly endings?: readonly Ending[];
	/** The first call that is to fail; another flow covers those before it. */
	readonly from?: string;
	/**
	 * True: it looks at all apps or moves the clock, so each run settles before the next one begins.
	 */
	readonly alone?: boolean;
	/** State before the flow, created without faults. */
	readonly prepare?: (stage: Stage) => Promise<void>;
	/** One pass of a client; it ends with the first answer that the client cannot continue from. */
	readonly go: (client: Client, stage: Stage) => Promise<Answer | undefined>;
	/** Checks the end state after the client continued or started again. */
	readonly reached: (stage: Stage) => Promise<void>;
	/**
	 * Checks the end state when the client never returned and the clean-up ran. Default: `reached` may
	 * hold or not.
	 */
	readonly abandoned?: (stage: Stage) => Promise<void>;
}

export const clientOf = (world: World): Client => ({
	request: requestThrough(createApp(world.deps)),
	deps: world.deps,
});

export const bundleRow = async ({ app }: Stage) =>
	(
		await rows(
			query
				.selectFrom("bundles")
				.selectAll()
				.where("app_id", "=", app.uuid)
				.where("name", "=", VERSION)
				.where("deleted_at_ms", "is", null),
		)
	)[0];

export async function expectReady(stage: Stage): Promise<void> {
	expect(await bundleRow(stage)).toMatchObject({ status: "ready", sha256: stage.checksum });
}

export async function expectNoBundle(stage: Stage): Promise<void> {
	expect(await bundleRow(stage)).toBeUndefined();
}

/** A version that is not ready must be free for other keys after the clean-up. */
export async function expectFreeUnlessReady(stage: Stage): Promise<void> {
	const row = await bundleRow(stage);
	if (row?.status === "ready") return;
	expect(row).toBeUndefined();
	const taken = await register(stage.world, stage.app, VERSION, stage.world.adminKey);
	expect(taken.status).toBe(201);
	await stage.world.request("DELETE", "/bundle", {
		key: stage.world.adminKey,
		query: { app_id: stage.app.appId, version: VERSION },
	});
}
