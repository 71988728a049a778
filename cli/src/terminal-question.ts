/**
 * A question to the person at the terminal. Scripts and CI jobs are not asked, because nobody would
 * answer.
 */
import { createInterface } from "node:readline/promises";
import type { Terminal } from "./terminal";

/** The answer; undefined where nobody is asked. */
export async function question(terminal: Terminal, text: string): Promise<string | undefined> {
	const { stdin, stderr } = process;
	if (terminal.json || stdin.isTTY !== true || stderr.isTTY !== true) return undefined;
	const lines = createInterface({ input: stdin, output: stderr });
	try {
		return (await lines.question(text)).trim();
	} finally {
		lines.close();
	}
}
