/**
 * The stored snapshot of each app: one object in R2, which the request that changed the app
 * replaces. Other isolates read it instead of D1, and a cold isolate answers from it while D1 does
 * not answer.
 *
 * - The metadata has the token of the content. Tokens are random and belong to one revision of one
 *   app, so neither an old object nor that of another app is taken for the wanted one. The caller
 *   compares the app in the content as well.
 * - A failure of R2 is logged and costs a load from D1, never an answer.
 * - The scheduled clean-up removes the objects of deleted apps, so a deleted app may be read for 15
 *   minutes, and only if D1 is down.
 */
import type { Deps } from "../deps";
import { causeText } from "../errors";

/** Content of a snapshot, as text that this file does not read. */
export interface Content {
	readonly token: string;
	readonly text: string;
}

export type SnapshotObjects = ReturnType<typeof createSnapshotObjects>;

/** @param format of the content; an object of another format counts as missing */
export function createSnapshotObjects({ bundles, log }: Pick<Deps, "bundles" | "log">, format: string) {
	const tokenOf = (found: R2Object | null) =>
		found?.customMetadata?.format === format ? found.customMetadata.token : undefined;

	function failed(error: unknown): undefined {
		log("warn", "snapshot_object_failed", { cause: causeText(error) });
	}

	return {
		/** The token of the stored content. */
		storedToken: (publicAppId: string): Promise<string | undefined> =>
			bundles.head(keyOf(publicAppId)).then(tokenOf).catch(failed),

		/** The stored content, whatever its age. */
		async read(publicAppId: string): Promise<Content | undefined> {
			try {
				const found = await bundles.get(keyOf(publicAppId));
				const token = tokenOf(found);
				if (found === null || token === undefined) return undefined;
				return { token, text: await new Response(found.body).text() };
			} catch (error) {
				return failed(error);
			}
		},

		async store(publicAppId: string, { token, text }: Content): Promise<void> {
			await bundles.put(keyOf(publicAppId), text, { customMetadata: { format, token } }).catch(failed);
		},
	};
}

/** No other object has a key of this form: theirs begin with the UUID of an app. */
const keyOf = (publicAppId: string) => `snapshots/${publicAppId.toLowerCase()}`;

/** Removes the stored snapshots of apps that are deleted. */
export async function removeSnapshots(bucket: R2Bucket, publicAppIds: readonly string[]): Promise<void> {
	if (publicAppIds.length > 0) await bucket.delete(publicAppIds.map(keyOf));
}
