/**
 * Problems of a channel in answers: the sentence for programs and the terminal, and the facts from
 * which a screen makes its own sentence and its buttons. The domain finds them
 * (channel-problems.ts).
 */
import * as v from "valibot";
import { CHANNEL_PROBLEMS } from "../../domain/updates/channel-problems";
import { REFUSAL_CODES } from "../../domain/updates/refusals";
import { refusalSettings } from "../../http/schemas";

const settings = v.strictObject({
	...refusalSettings,
	disableAutoUpdate: v.optional(v.picklist(["none", "major"])),
});

export const problemSchema = v.strictObject({
	code: v.picklist(CHANNEL_PROBLEMS),
	message: v.string(),
	/** The bundle that no device gets; null for a problem of the whole channel. */
	version: v.nullable(v.string()),
	/** Changes for POST /channel; each alone solves the problem. */
	settings: v.array(settings),
	/** `no_store_build`: why the newest of `store_builds` gets nothing. */
	refusal: v.nullable(v.picklist(REFUSAL_CODES)),
	/** `no_store_build`: recent store builds, newest first. */
	store_builds: v.array(v.string()),
});
