/**
 * Uploads whose calls fail: by PUT and TUS in pieces, of wrong and of damaged bytes, completed
 * after a crash, and external. Each ends with a bundle that is whole, or with a version that is
 * free.
 */

import { expect } from "vitest";
import { query } from "../../../src/db/client";
import {
	bundleOf,
	complete,
	deltaName,
	locationOf,
	patterned,
	putBytes,
	register,
	rows,
	tusCreate,
	tusHead,
	tusPatch,
	zipName,
} from "./bytes";
import {
	BYTES,
	bundleRow,
	type Client,
	clientOf,
	ENDINGS,
	expectFreeUnlessReady,
	expectNoBundle,
	expectReady,
	type Flow,
	type Stage,
	VERSION,
	WITHOUT_MEMORY,
} from "./crash-stage";
import { withFault } from "./faults";
import type { Answer } from "./world";
import { zipOf } from "./zip";

const NO_BUNDLE = zipOf([{ name: "dist/index.html", content: patterned(3000) }]);
const SEGMENT_BYTES = 8 * 1024 * 1024;

async function registerFor(client: Client, stage: Stage, fields: Record<string, unknown>): Promise<Answer | undefined> {
	const registered = await register(client, stage.app, VERSION, stage.key, fields);
	// Taken: an earlier try of ours came through.
	if (registered.status === 409) return complete(client, stage.app, VERSION, stage.key);
	if (registered.status !== 201) return registered;
	stage.memory.uploadUrl = registered.body.upload_url;
	return undefined;
}

function putFlow(name: string, fields: (stage: Stage) => Record<string, unknown>): Flow {
	return {
		name,
		endings: ENDINGS,
		async go(client, stage) {
			if (stage.memory.uploadUrl === undefined) {
				const ended = await registerFor(client, stage, fields(stage));
				if (ended !== undefined) return ended;
			}
			return putBytes(client, stage.memory.uploadUrl ?? "", stage.bytes);
		},
		reached: expectReady,
		abandoned: expectFreeUnlessReady,
	};
}

/**
 * A TUS client: creation, then as many PATCHes as it has pieces; after a fault it asks with HEAD
 * where to go on.
 */
function tusFlow(
	name: string,
	options: {
		readonly pieces: number;
		readonly delta?: string;
		readonly bytes?: Uint8Array;
		readonly checksum?: boolean;
	},
): Flow {
	return {
		name,
		endings: ENDINGS,
		...(options.bytes === undefined ? {} : { bytes: options.bytes }),
		async prepare(stage) {
			if (options.delta !== undefined) return;
			const fields = options.checksum === false ? {} : { checksum: stage.checksum };
			expect((await register(stage.world, stage.app, VERSION, stage.key, fields)).status).toBe(201);
		},
		async go(client, stage) {
			const { bytes, key, memory } = stage;
			const fileName =
				options.delta === undefined
					? zipName(stage.world, stage.app, VERSION)
					: deltaName(stage.world, stage.app, options.delta);
			let offset = 0;
			if (memory.location === undefined) {
				const created = await tusCreate(client, key, fileName, bytes.length);
				// An earlier try of ours completed it, and a restarted client remembers nothing of that.
				if (created.status === 409) return complete(client, stage.app, VERSION, key);
				if (created.status !== 201) return created;
				memory.location = locationOf(created);
			} else {
				const head = await tusHead(client, key, memory.location);
				if (head.status !== 200) return head;
				offset = Number(head.headers.get("upload-offset"));
			}
			const pieceBytes = Math.ceil(bytes.length / options.pieces);
			while (offset < bytes.length) {
				const piece = bytes.slice(offset, offset + pieceBytes);
				const patched = await tusPatch(client, key, memory.location, offset, piece);
				if (patched.status !== 204) return patched;
				offset = Number(patched.headers.get("upload-offset"));
			}
			return undefined;
		},
		async reached(stage) {
			if (options.delta === undefined) return expectReady(stage);
			const [row] = await rows(query.selectFrom("delta_objects").selectAll().where("app_id", "=", stage.app.uuid));
			expect(row).toMatchObject({ size_bytes: stage.bytes.length });
		},
		...(options.delta === undefined ? { abandoned: expectFreeUnlessReady } : {}),
	};
}

/** The refusal that ends the flow, now or by an earlier try. */
const refusedWith = (status: number, answer: Answer): Answer | undefined =>
	answer.status === status || answer.status === 404 ? undefined : answer;

function refusedPutFlow(name: string, status: number, checksum: (stage: Stage) => string): Flow {
	return {
		name,
		endings: ENDINGS,
		async go(client, stage) {
			if (stage.memory.uploadUrl === undefined) {
				const ended = await registerFor(client, stage, { checksum: checksum(stage) });
				if (ended !== undefined) return ended;
			}
			return refusedWith(status, await putBytes(client, stage.memory.uploadUrl ?? "", stage.bytes));
		},
		reached: expectNoBundle,
		abandoned: expectFreeUnlessReady,
	};
}

/** Sends all bytes; the call that would complete the bundle fails. */
async function crashBeforeCompletion(stage: Stage): Promise<void> {
	await registerFor(clientOf(stage.world), stage, { checksum: stage.checksum });
	const crashing = withFault(stage.world, 4, "refused");
	await putBytes(crashing, stage.memory.uploadUrl ?? "", stage.bytes);
	expect(crashing.failed).toBe("d1.batch");
	expect((await bundleRow(stage))?.status).toBe("pending");
}

export const UPLOADS: readonly Flow[] = [
	putFlow("register, then PUT, with a checksum", ({ checksum }) => ({ checksum, size: BYTES.length })),
	putFlow("register, then PUT, without a checksum", () => ({})),
	tusFlow("TUS in three pieces", { pieces: 3 }),
	tusFlow("TUS in two pieces without a checksum", { pieces: 2, checksum: false }),
	tusFlow("TUS in one piece", { pieces: 1 }),
	{
		...tusFlow("TUS of two segments in one piece", { pieces: 1, bytes: bundleOf(SEGMENT_BYTES + 10) }),
		// The largest by far: "TUS in one piece" covers starting again, and the calls before the first
		// segment is stored.
		endings: WITHOUT_MEMORY,
		from: "r2.put",
	},
	tusFlow("a delta file in two pieces", { pieces: 2, delta: "aa_main.js" }),
	tusFlow("a delta file of no bytes", { pieces: 1, delta: "00_empty", bytes: new Uint8Array() }),
	refusedPutFlow("a wrong checksum", 400, () => "0".repeat(64)),
	{ ...refusedPutFlow("a zip that is no bundle", 422, ({ checksum }) => checksum), bytes: NO_BUNDLE },
	{
		name: "complete after a crash",
		prepare: crashBeforeCompletion,
		go: (client, stage) => complete(client, stage.app, VERSION, stage.key),
		reached: expectReady,
		abandoned: expectFreeUnlessReady,
	},
	{
		name: "complete of a zip that is no bundle after a crash",
		bytes: NO_BUNDLE,
		prepare: crashBeforeCompletion,
		async go(client, stage) {
			return refusedWith(422, await complete(client, stage.app, VERSION, stage.key));
		},
		reached: expectNoBundle,
		abandoned: expectFreeUnlessReady,
	},
	{
		name: "an external bundle",
		async go(client, stage) {
			return registerFor(client, stage, { external_url: "https://cdn.example.org/b.zip" });
		},
		async reached(stage) {
			expect(await bundleRow(stage)).toMatchObject({
				status: "ready",
				storage_provider: "external",
				sha256: stage.checksum,
				size_bytes: stage.bytes.length,
			});
		},
		abandoned: expectFreeUnlessReady,
	},
];
