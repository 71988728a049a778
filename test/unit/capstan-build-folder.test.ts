/**
 * Which folders `capstan` refuses before it sends anything: those with something else than files,
 * and with links that leave them.
 */
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readBuild } from "../../cli/src/build-folder";

let outside: string;
let folder: string;
let server: Server | undefined;
beforeEach(async () => {
	outside = await mkdtemp(join(tmpdir(), "capstan-build-"));
	folder = join(outside, "dist");
	await mkdir(join(folder, "assets"), { recursive: true });
	await writeFile(join(folder, "index.html"), "notifyAppReady");
	await writeFile(join(outside, "secret.txt"), "secret");
});
afterEach(async () => {
	server?.close();
	await rm(outside, { recursive: true });
});

const opened = async (path: string) => {
	server = createServer();
	await new Promise<void>((resolve) => server?.listen(path, resolve));
};

test.each<[string, string, (path: string) => Promise<unknown> | unknown]>([
	["a pipe", "not_a_file", (path) => execFileSync("mkfifo", [path])],
	["a socket", "not_a_file", opened],
	["a link to a file outside", "link_leaves_build", (path) => symlink(join(outside, "secret.txt"), path)],
	["a relative link outside", "link_leaves_build", (path) => symlink("../../secret.txt", path)],
	["a link to a folder outside", "link_leaves_build", (path) => symlink(outside, path)],
	["a link to a device", "link_leaves_build", (path) => symlink("/dev/zero", path)],
	["a link to itself", "link_leaves_build", (path) => symlink(path, path)],
	["a link to nothing", "link_leaves_build", (path) => symlink("nowhere", path)],
])("%s is refused by its name", async (_, code, create) => {
	await create(join(folder, "assets", "odd"));
	await expect(readBuild(folder)).rejects.toMatchObject({
		code,
		exitCode: 2,
		details: { file: "assets/odd" },
		message: expect.stringContaining("assets/odd"),
	});
});

test("a link to a file of the folder is that file", async () => {
	await symlink("../index.html", join(folder, "assets", "copy.html"));
	const names = (await readBuild(folder)).files.map(({ name }) => name);
	expect(names).toEqual(["assets/copy.html", "index.html"]);
});
