/**
 * Checks of uploads are work that a key does not pay: their size is bounded, and refused ones cost
 * their caller time.
 */
import { brotliCompressSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { MOST_END_BYTES } from "../../../src/domain/bundles/archive-directory";
import { REFUSAL_MS } from "../../../src/features/bundles/upload-errors";
import { mostUnpackedBytes, unpackBrotli } from "../../../src/storage/brotli";
import { locationOf, tusCreate, tusPatch } from "../support/bytes";
import {
	type Answer,
	createTestApp,
	createTestKey,
	createWorld,
	sha256Hex,
	type TestApp,
	testEnv,
	until,
	uploadTestBundle,
	type World,
} from "../support/world";
import { zipOf } from "../support/zip";

let world: World;
let app: TestApp;
beforeAll(async () => {
	world = await createWorld();
	app = await createTestApp(world);
});

/** 64 MiB of zeros, which take Brotli some seconds, and their SHA-256. */
const ZEROS =
	"y///P/gnAOKxQCD3/o///3/wTwDEYRGA7v0f////4J8AiMMCAN37P/7//8E/ARCHBQC693/8//+DfwIgDgsAdO//+P//B/8EQBwWAOje//H//w/+CYA4LADQvf/L//8//BMAcVgAoHv/Bw==";
const SHA256_OF_ZEROS = "3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351";

describe("a compressed file", () => {
	const pathOf = (name: string, sha256: string) => `orgs/${world.orgId}/apps/${app.appId}/delta/${sha256}_${name}`;
	const pathFor = async (name: string, content: Uint8Array) => pathOf(name, await sha256Hex(content));
	const store = async (key: string, path: string, bytes: Uint8Array) => {
		const location = locationOf(await tusCreate(world, key, path, bytes.length));
		return tusPatch(world, key, location, 0, bytes);
	};

	test("of 100 bytes is not unpacked to 64 MB", async () => {
		const key = await createTestKey(world, "app_preview", app);
		const bomb = Uint8Array.from(atob(ZEROS), (character) => character.charCodeAt(0));
		expect(mostUnpackedBytes(bomb.length)).toBeLessThan(5 * 1024 * 1024);
		expect(unpackBrotli(bomb)).toBeUndefined();
		expect((await store(key.text, pathOf("bomb.js.br", SHA256_OF_ZEROS), bomb)).status).toBe(422);
	});

	test("of one repeated word is unpacked and stored", async () => {
		const key = await createTestKey(world, "app_preview", app);
		for (const times of [20_000, 400_000]) {
			const content = new TextEncoder().encode("capstan ".repeat(times));
			const packed = new Uint8Array(brotliCompressSync(content));
			expect(packed.length).toBeLessThan(100);
			const path = await pathFor(`words-${times}.txt.br`, content);
			expect((await store(key.text, path, packed)).status).toBe(204);
		}
	});

	test("of a web build is unpacked and stored", async () => {
		const key = await createTestKey(world, "app_preview", app);
		const text = Array.from({ length: 15_000 }, (_, line) => `export const value${line} = ${line * 7919};`).join("\n");
		const content = new TextEncoder().encode(text);
		const packed = new Uint8Array(brotliCompressSync(content));
		expect(unpackBrotli(packed)?.length).toBe(content.length);
		expect((await store(key.text, await pathFor("app.js.br", content), packed)).status).toBe(204);
	});
});

describe("refused uploads", () => {
	test("of one caller are answered one after the other, while others upload", async () => {
		const rests: (() => void)[] = [];
		let polls: (() => void)[] = [];
		const slow = await createWorld({
			bindings: {
				delay: (ms) => new Promise((resolve) => (ms === REFUSAL_MS ? rests : polls).push(resolve)),
			},
		});
		const ownApp = await createTestApp(slow);
		const { text: key } = await createTestKey(slow, "app_preview", ownApp);
		const other = await createTestKey(slow, "app_developer", ownApp);
		let count = 0;
		const upload = async (of: string, content: Uint8Array, promised: Uint8Array) => {
			count += 1;
			const name = `${await sha256Hex(promised)}_${count}.txt`;
			const path = `orgs/${slow.orgId}/apps/${ownApp.appId}/delta/${name}`;
			const location = locationOf(await tusCreate(slow, of, path, content.length));
			return () => tusPatch(slow, of, location, 0, content);
		};
		const bytes = (text: string) => new TextEncoder().encode(text);
		const wrong = () => upload(key, bytes("one"), bytes("two"));
		const answers: number[] = [];
		const note = ({ status }: Answer) => void answers.push(status);
		const first = [await wrong(), await wrong(), await wrong()];
		const [good, own] = [await upload(other.text, bytes("a"), bytes("a")), await upload(key, bytes("b"), bytes("b"))];
		const running = first.map((send) => send().then(note));
		await until(() => rests.length === 1 && polls.length === 2);
		expect((await good()).status).toBe(204);
		running.push(own().then(note));
		// Nothing of that caller is answered before the rest is over, and then one at a time.
		await until(() => polls.length === 3);
		expect(answers).toEqual([]);
		while (answers.length < running.length) {
			const before = answers.filter((status) => status === 422).length;
			expect(rests.length).toBeLessThanOrEqual(1);
			for (const end of rests.splice(0)) end();
			await until(() => polls.length > 0 || answers.length === running.length);
			for (const poll of polls.splice(0)) poll();
			await until(() => rests.length > 0 || polls.length > 0 || answers.length === running.length);
			expect(answers.filter((status) => status === 422).length - before).toBeLessThanOrEqual(1);
		}
		await Promise.all(running);
		expect(answers.toSorted()).toEqual([204, 422, 422, 422]);
		polls = [];
	});
});

describe("the directories of zips", () => {
	test("that are large are read one after the other for one caller; small ones, and those of others, are not", async () => {
		let reading = 0;
		let most = 0;
		const bucket = new Proxy(testEnv.BUNDLES, {
			get: (target, name) => {
				if (name !== "get") return Reflect.get(target, name).bind(target);
				return async (key: string, options?: R2GetOptions) => {
					const { length = 0 } = (options?.range ?? {}) as { length?: number };
					// The end of a zip is read before its directory is known, and has the whole of a small one.
					if (length <= MOST_END_BYTES) return target.get(key, options);
					reading += 1;
					most = Math.max(most, reading);
					const object = await target.get(key, options);
					await new Promise((resolve) => setTimeout(resolve, 5));
					reading -= 1;
					return object;
				};
			},
		});
		const own = await createWorld({
			bindings: { bundles: bucket, delay: () => new Promise((resolve) => setTimeout(resolve)) },
		});
		const ownApp = await createTestApp(own);
		const entries = (count: number) =>
			Array.from({ length: count }, (_, index) => ({
				name: index === 0 ? "index.html" : `${"a".repeat(100)}/${index}.js`,
			}));
		await uploadTestBundle(own, ownApp, "1.0.0", own.adminKey, zipOf(entries(2_000)));
		await uploadTestBundle(own, ownApp, "1.0.1", own.adminKey, zipOf(entries(10)));
		const { text: key } = await createTestKey(own, "app_preview", ownApp);
		const { text: other } = await createTestKey(own, "app_reader", ownApp);
		const list = (version: string, by = key) =>
			own.request("GET", "/bundle/files", { key: by, query: { app_id: ownApp.appId, version } });
		most = 0;
		const answers = await Promise.all([list("1.0.0"), list("1.0.0"), list("1.0.0"), list("1.0.1")]);
		expect(answers.map(({ status, body }) => [status, body.total])).toEqual([
			[200, 2_000],
			[200, 2_000],
			[200, 2_000],
			[200, 10],
		]);
		expect(most).toBe(1);
		await Promise.all([list("1.0.0"), list("1.0.0", other)]);
		expect(most).toBe(2);
	});
});
