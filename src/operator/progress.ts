/**
 * Progress of a running command: a single updated line on a terminal, one line per step elsewhere.
 */
import type { WriteStream } from "node:tty";

export interface Progress {
	readonly step: (text: string) => void;
	/** Clears the progress line. */
	readonly end: () => void;
}

const CLEAR_LINE = "\r\x1b[K";

/** `output` undefined: shows nothing. */
export function showProgress(
	output: Pick<WriteStream, "isTTY" | "write"> | undefined,
	title = "Starting Capstan",
): Progress {
	if (output === undefined) return { step: () => undefined, end: () => undefined };
	let isShown = output.isTTY;
	return {
		step(text) {
			isShown = output.isTTY;
			output.write(output.isTTY ? `${CLEAR_LINE}${title}: ${text}…` : `  ${text}…\n`);
		},
		end() {
			if (isShown) output.write(CLEAR_LINE);
			isShown = false;
		},
	};
}
