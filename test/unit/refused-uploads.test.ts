/** Refused uploads cost their caller time, and nobody else. */
import { expect, test } from "vitest";
import { ApiError } from "../../src/errors";
import { whileChecked } from "../../src/features/bundles/upload-errors";
import { createMemory } from "../../src/http/limits/memory";

const UPLOADERS = {
	"the same job": { created_by: "a", created_by_key: "k", created_by_job: "j", owner_org: "o" },
	"another job of the same key": { created_by: "a", created_by_key: "k", created_by_job: "i", owner_org: "o" },
	"the key itself": { created_by: "a", created_by_key: "k", created_by_job: null, owner_org: "o" },
	"the account without a key": { created_by: "a", created_by_key: null, created_by_job: null, owner_org: "o" },
	"another organization": { created_by: "b", created_by_key: "l", created_by_job: null, owner_org: "p" },
};

test.each(Object.entries(UPLOADERS))("after a refusal, %s", async (name, uploader) => {
	const rests: (() => void)[] = [];
	// Polls for a place never end here.
	const delay = (ms: number) => new Promise<void>((resolve) => ms > 100 && rests.push(resolve));
	const context = {
		deps: { delay } as never,
		memory: createMemory({ now: () => 0, delay }),
		waitUntil: () => undefined,
	};
	const refusal = whileChecked(context, UPLOADERS["the same job"], async () => {
		throw new ApiError("bundle_invalid", "no");
	}).catch((error: ApiError) => error.code);
	await expect.poll(() => rests.length).toBe(1);
	let isChecked = false;
	const other = whileChecked(context, uploader, async () => {
		isChecked = true;
	});
	await new Promise((resolve) => setTimeout(resolve, 0));
	expect(isChecked).toBe(name !== "the same job");
	rests[0]?.();
	expect(await refusal).toBe("bundle_invalid");
	if (isChecked) await other;
});
