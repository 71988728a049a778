/** A valid bundle zip of exactly the given size. */
import { zipSync } from "fflate";

const MTIME = new Date("2026-11-21T08:00:00Z");
const zipOf = (contentBytes: number) =>
	zipSync({ "index.html": [new Uint8Array(contentBytes).fill(7), { level: 0 }] }, { mtime: MTIME });
const FRAME_BYTES = zipOf(0).length;

export const SMALL_BUNDLE_BYTES = FRAME_BYTES + 5;

export function bundleOf(sizeBytes: number): Uint8Array<ArrayBuffer> {
	return zipOf(sizeBytes - FRAME_BYTES) as Uint8Array<ArrayBuffer>;
}
