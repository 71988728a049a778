/**
 * API keys that `capstan login` stored, by server. The file is readable by its owner only and is
 * replaced atomically. A key is sent to the server that it was stored for, and to no other.
 */
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { failureOf, usage } from "./failure";
import { readText } from "./json-file";
import { writeFiles } from "./written-files";

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
	try {
		await writeFiles([{ path, content: `${JSON.stringify({ servers }, null, "\t")}\n`, mode: 0o600 }]);
	} catch (error) {
		const remedy = "Name another directory with XDG_CONFIG_HOME, or pass the key with CAPSTAN_TOKEN instead";
		throw usage("credentials_not_writable", `The key cannot be stored. ${failureOf(error).message} ${remedy}.`, {
			file: path,
		});
	}
	return path;
}
