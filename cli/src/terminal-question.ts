/**
 * A question to the person at the terminal. Scripts and CI jobs are not asked, because nobody would
 * answer.
 */
import { createInterface } from "node:readline/promises";
import { Failure } from "./failure";
import type { Terminal } from "./terminal";

/**
 * The answer; undefined where nobody is asked.
 * @throws {Failure} `interrupted` for Ctrl+C and Ctrl+D, after which readline never answers
 */
export async function question(terminal: Terminal, text: string): Promise<string | undefined> {
	const { stdin, stderr } = process;
	if (terminal.json || stdin.isTTY !== true || stderr.isTTY !== true) return undefined;
	const lines = createInterface({ input: stdin, output: stderr });
	try {
		const closed = new Promise<never>((_, reject) => {
			lines.once("close", () => reject(new Failure("interrupted", "Interrupted; nothing was changed.")));
		});
		return (await Promise.race([lines.question(text), closed])).trim();
	} finally {
		lines.close();
	}
}
