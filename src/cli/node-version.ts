/**
 * Refuses a Node that is too old, before anything that such a Node cannot even load. So this file imports nothing, and the programs
 * that people start import it first.
 */
const OLDEST: readonly [number, number] = [20, 19];

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
	console.error(`Node ${process.versions.node} is too old; install Node ${OLDEST.join(".")} or newer.`);
	process.exit(1);
}

export {};
