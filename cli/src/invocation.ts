/**
 * How a person started the command, such as `npx https://updates.example.com/capstan.tgz`, so that
 * messages name a command that works when it is copied. A command that npx fetched is not in the
 * PATH.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const PLAIN = "capstan";

/** @param script the file that runs */
export function invocationOf(script: string, environment: Readonly<Record<string, string | undefined>>): string {
	const fetched = /^(.*[\\/]_npx[\\/][^\\/]+)[\\/]node_modules[\\/]/.exec(script)?.[1];
	if (fetched !== undefined) return `npx ${packageOf(fetched) ?? PLAIN}`;
	if (!/[\\/]node_modules[\\/]/.test(script) || environment.npm_execpath === undefined) return PLAIN;
	const agent = environment.npm_config_user_agent ?? "";
	if (agent.startsWith("pnpm/")) return `pnpm exec ${PLAIN}`;
	if (agent.startsWith("yarn/")) return `yarn ${PLAIN}`;
	return agent.startsWith("bun/") ? `bunx ${PLAIN}` : `npx ${PLAIN}`;
}

/** The package that npx was asked for, as npx notes it beside its copy. */
function packageOf(directory: string): string | undefined {
	try {
		const { _npx } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8")) as {
			readonly _npx?: { readonly packages?: readonly unknown[] };
		};
		const [name] = _npx?.packages ?? [];
		return typeof name === "string" && /^[\w@:/.+-]+$/.test(name) ? name : undefined;
	} catch {
		return undefined;
	}
}
