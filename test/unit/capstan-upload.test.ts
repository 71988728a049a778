/**
 * The single files of a bundle, as `capstan release` names them to the server: compressed if that
 * makes them smaller and the server can check them, and as they are otherwise. An unchanged file
 * keeps its name in every release, so that it is not uploaded again.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { Server } from "../../cli/src/api";
import { readBuild } from "../../cli/src/build-folder";
import { uploadBundle } from "../../cli/src/upload";

const folder = mkdtempSync(join(tmpdir(), "capstan-upload-"));
afterAll(() => rmSync(folder, { recursive: true }));

const KIB = 1024;
const MIB = 1024 * KIB;

/** The names in the manifest of the folder; the server lacks no file. */
async function namesOf(directory: string): Promise<string[]> {
	const names: string[] = [];
	const api = async (endpoint: string, request: { readonly body: { manifest?: { file_name: string }[] } }) => {
		if (endpoint === "POST /private/set_manifest")
			names.push(...(request.body.manifest ?? []).map(({ file_name }) => file_name));
		return {};
	};
	await uploadBundle({
		server: { api } as unknown as Server,
		app: { app_id: "com.acme.shop", owner_org: "o" },
		version: "1.0.0",
		build: await readBuild(directory),
		form: "delta",
		zip: undefined,
		encryption: undefined,
		nativePackages: undefined,
		fields: {},
		progress: () => undefined,
	});
	return names;
}

test.each([
	["text", "main.js", Buffer.alloc(300 * KIB, "const a = 1;\n"), true],
	["a small file", "small.js", Buffer.alloc(4 * KIB, "a"), false],
	["text of the most bytes that the server unpacks", "most.txt", Buffer.alloc(32 * MIB, "a"), true],
	["text of more bytes than the server unpacks", "large.txt", Buffer.alloc(32 * MIB + 1, "a"), false],
	["an image of any size", "photo.JPG", Buffer.alloc(20 * KIB, "a"), false],
	["bytes that do not shrink", "model.bin", randomBytes(300 * KIB), false],
	["a file whose name says that it is compressed", "main.js.br", Buffer.alloc(10, "a"), true],
])("%s: %s", async (_, name, content, isCompressed) => {
	const directory = mkdtempSync(join(folder, "build-"));
	writeFileSync(join(directory, "index.html"), "<h1>Shop</h1>");
	writeFileSync(join(directory, name), content);
	const expected = ["index.html", isCompressed ? `${name}.br` : name].sort();
	expect((await namesOf(directory)).sort()).toEqual(expected);
	expect((await namesOf(directory)).sort()).toEqual(expected);
});
