/**
 * Colours of chart series, by tone. The dashboard's theme.css has the same values as custom
 * properties, and a test holds both equal. Categories differ for each kind of colour vision.
 * Versions are ordinal: the live one is `s4`, older ones are paler, one that rolls out is `ro`.
 */
export const CATEGORIES = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"] as const;
const SEQUENCE = ["s1", "s2", "s3", "s4", "s5", "s6", "s7"] as const;
export const TONES = [...CATEGORIES, ...SEQUENCE, "store", "ro"] as const;
export type Tone = (typeof TONES)[number];

/** The sum of the other series. */
export const OTHER_TONE: Tone = "c8";

export type Palette = Readonly<Record<Tone, string>>;

export const LIGHT_PALETTE: Palette = {
	c1: "#3b82f0",
	c2: "#81410d",
	c3: "#327f6e",
	c4: "#670d3d",
	c5: "#b18109",
	c6: "#694aad",
	c7: "#024875",
	c8: "#8f94a6",
	s1: "#dfe8fb",
	s2: "#b9cef8",
	s3: "#8fb0f2",
	s4: "#6390ea",
	s5: "#3c6fdc",
	s6: "#1f52cc",
	s7: "#153b99",
	store: "#c9ced8",
	ro: "#d07f4e",
};

export const DARK_PALETTE: Palette = {
	c1: "#4c86f5",
	c2: "#f99c69",
	c3: "#a3f2e5",
	c4: "#a73b64",
	c5: "#f2db74",
	c6: "#6e52a9",
	c7: "#65c4e7",
	c8: "#828795",
	s1: "#16264a",
	s2: "#1d3a78",
	s3: "#2450a8",
	s4: "#3268d6",
	s5: "#5586ef",
	s6: "#82a8fb",
	s7: "#b6cdff",
	store: "#3a424e",
	ro: "#c97a36",
};

const STORE_BUILD = "builtin";
const UNKNOWN = "unknown";

/**
 * Tones of versions beside each other.
 * @param versions from old to new
 * @param live the version that most devices run, or that its channel has
 * @param rollingOut by default the newest version above the live one
 */
export function versionTones(versions: readonly string[], live?: string, rollingOut?: string): Map<string, Tone> {
	const ordered = versions.filter((version) => version !== STORE_BUILD && version !== UNKNOWN);
	const main = live !== undefined && ordered.includes(live) ? live : ordered.at(-1);
	const above = main === undefined ? [] : ordered.slice(ordered.indexOf(main) + 1);
	const rollout = rollingOut ?? above.at(-1);
	const older = main === undefined ? [] : ordered.slice(0, ordered.indexOf(main)).reverse();
	const newer = above.filter((version) => version !== rollout);
	const tones = new Map<string, Tone>([
		[STORE_BUILD, "store"],
		[UNKNOWN, OTHER_TONE],
	]);
	const paler: readonly Tone[] = older.length > 2 ? ["s3", "s2", "s1"] : ["s2", "s1"];
	for (const [index, version] of older.entries()) tones.set(version, paler[index] ?? "s1");
	for (const [index, version] of newer.entries()) tones.set(version, SEQUENCE[Math.min(4 + index, 6)] ?? "s7");
	if (main !== undefined) tones.set(main, "s4");
	if (rollout !== undefined) tones.set(rollout, "ro");
	return tones;
}
