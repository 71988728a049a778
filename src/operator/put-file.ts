/**
 * Writes a file of the build only if it changed, and at once, because another run may be serving
 * it.
 */
import { randomUUID } from "node:crypto";
import { readFile, rename, writeFile } from "node:fs/promises";

export async function putFile(path: string, content: Buffer): Promise<void> {
	const current = await readFile(path).catch(() => undefined);
	if (current?.equals(content) === true) return;
	const temporary = `${path}.${randomUUID()}`;
	await writeFile(temporary, content);
	await rename(temporary, path);
}
