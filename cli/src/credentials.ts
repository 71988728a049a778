/**
 * API keys that `capstan login` stored, by server. The file is readable by its owner only and is
 * replaced atomically. A key is sent to the server that it was stored for, and to no other.
 */
import { randomUUID } from "node:crypto";
import { chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { usage } from "./failure";
import { readText } from "./json-file";

type Environment = Readonly<Record<string, string | undefined>>;

interface StoredKeys {
	/** By origin, e.g. `https://updates.example.com`. */
	readonly servers: Readonly<Record<string, { readonly key: string }>>;
}

function credentialsPath(environment: Environment): string {
	const home = environment.HOME || environment.USERPROFILE || homedir();
	// An empty or relative value counts as unset, as the XDG specification says.
	const base = [environment.XDG_CONFIG_HOME, environment.APPDATA].find(
		(path) => path !== undefined && isAbsolute(path),
	);
	return join(base ?? join(home, ".config"), "capstan", "credentials.json");
}

export async function readCredentials(environment: Environment): Promise<StoredKeys> {
	const path = credentialsPath(environment);
	const text = await readText(path);
	if (text === undefined) return { servers: {} };
	try {
		const { servers } = JSON.parse(text) as Partial<StoredKeys>;
		if (typeof servers === "object" && servers !== null) return { servers };
	} catch {
		// Reported below, without the text, which may contain keys.
	}
	throw usage("credentials_damaged", `${path} is damaged; delete it and run capstan login again.`);
}

/** Stores the key of a server, or removes it. */
export async function storeKey(environment: Environment, origin: string, key: string | undefined): Promise<string> {
	const path = credentialsPath(environment);
	const { [origin]: _, ...others } = (await readCredentials(environment)).servers;
	const servers = key === undefined ? others : { ...others, [origin]: { key } };
	await mkdir(dirname(path), { recursive: true, mode: 0o700 });
	const temporary = `${path}.${randomUUID()}`;
	try {
		await writeFile(temporary, `${JSON.stringify({ servers }, null, "\t")}\n`, { mode: 0o600 });
		// The mode of writeFile is reduced by the umask, never extended; this states it.
		await chmod(temporary, 0o600);
		await rename(temporary, path);
	} catch (error) {
		await rm(temporary, { force: true });
		throw error;
	}
	return path;
}
