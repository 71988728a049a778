/**
 * Texts and numbers of charts: escaping, estimated widths, shortening, and number formats that do
 * not depend on a locale. Names come from strangers, so every text is escaped here and stays in its
 * place. Widths are estimated for a wide sans-serif, so a label that fits here fits with the
 * reader's fonts too.
 */

import { BIDI_CONTROLS, escapeXml } from "../domain/words/plain-text";

export type Unit = "count" | "bytes" | "percent" | "milliseconds";

/** A name in one line, without characters that change the direction of text. */
export function cleanName(name: string): string {
	return name.replace(BIDI_CONTROLS, "").replace(/\s+/g, " ").trim() || "(unnamed)";
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/**
 * A name inside a sentence. A right-to-left name is isolated, so that the figures after it keep
 * their place.
 */
export function quotedName(name: string): string {
	return RIGHT_TO_LEFT.test(name) ? `\u2068${name}\u2069` : name;
}

const COMBINING = /^[\p{Mark}\p{Format}]$/u;

function characterWidthEm(character: string): number {
	if (/^[iljI.,:;'|!]$/.test(character)) return 0.36;
	if (/^[ ftr()[\]\-/]$/.test(character)) return 0.44;
	if (/^[mwMW@%—…]$/.test(character)) return 1;
	if (/^[0-9a-z_–"*?·]$/.test(character)) return 0.64;
	if (/^[A-Z]$/.test(character)) return 0.77;
	if (COMBINING.test(character)) return 0;
	const codePoint = character.codePointAt(0) ?? 0;
	return codePoint < 0x1100 || (codePoint >= 0x2000 && codePoint < 0x2190) ? 0.85 : 1.4;
}

export function estimatedWidthPx(text: string, fontSizePx: number): number {
	let widthEm = 0;
	for (const character of text) widthEm += characterWidthEm(character);
	return widthEm * fontSizePx;
}

/**
 * Longest emoji sequence. A longer cluster is a stack of accents, which would be drawn far outside
 * of its line.
 */
const CLUSTER_LIMIT = 10;
let segmenter: Intl.Segmenter | undefined;

function drawableClusters(text: string): string[] {
	segmenter ??= new Intl.Segmenter("en", { granularity: "grapheme" });
	return Array.from(segmenter.segment(text), ({ segment }) => {
		const codePoints = [...segment];
		return codePoints.length > CLUSTER_LIMIT ? (codePoints[0] ?? "") : segment;
	});
}

/** More than ever fits; the rest of a text is ignored. */
const LENGTH_LIMIT = 2000;

function fitting(clusters: readonly string[], fontSizePx: number, availablePx: number): string[] {
	let widthPx = 0;
	const end = clusters.findIndex((cluster) => {
		widthPx += estimatedWidthPx(cluster, fontSizePx);
		return widthPx > availablePx;
	});
	return end < 0 ? [...clusters] : clusters.slice(0, end);
}

/** The text, or as much of it as fits with an ellipsis. Visible characters are never split. */
export function fitText(
	text: string,
	fontSizePx: number,
	availablePx: number,
	ellipsis: "end" | "middle" = "end",
): string {
	const tail = text.length > LENGTH_LIMIT ? text.slice(-LENGTH_LIMIT) : text;
	const clusters = drawableClusters(text.slice(0, LENGTH_LIMIT));
	const whole = clusters.join("");
	if (tail === text && estimatedWidthPx(whole, fontSizePx) <= availablePx) return whole;
	const roomPx = Math.max(0, availablePx - estimatedWidthPx("…", fontSizePx));
	const head = fitting(clusters, fontSizePx, ellipsis === "end" ? roomPx : roomPx * 0.4).join("");
	if (ellipsis === "end") return `${head.trimEnd()}…`;
	const restPx = roomPx - estimatedWidthPx(head, fontSizePx);
	const end = fitting(drawableClusters(tail).reverse(), fontSizePx, restPx).reverse().join("");
	return `${head.replace(/[\s.]+$/, "")}…${end.replace(/^[\s.]+/, "")}`;
}

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** A positive power of ten, such as ×10¹⁸. */
function powerOfTen(exponent: number): string {
	return `×10${String(exponent).replace(/\d/g, (digit) => SUPERSCRIPTS.charAt(Number(digit)))}`;
}

/** Fixed decimals, thousands grouped by commas, a true minus sign. */
export function formatFixed(value: number, decimals: number): string {
	const text = Math.abs(value).toFixed(decimals);
	if (text.includes("e")) return `${value < 0 ? "−" : ""}${text}`;
	const [whole = "0", fraction] = text.split(".");
	const grouped = whole.replace(/\B(?=(?:\d{3})+$)/g, ",");
	const isZero = !/[1-9]/.test(text);
	return `${value < 0 && !isZero ? "−" : ""}${grouped}${fraction === undefined ? "" : `.${fraction}`}`;
}

const trimmed = (value: number, decimals: number) =>
	formatFixed(value, decimals)
		.replace(/(\.\d*?)0+$/, "$1")
		.replace(/\.$/, "");

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] as const;

/** One figure with its unit, for a sentence. */
export function formatQuantity(unit: Unit, value: number): string {
	// A decimal near 0 % and 100 %, where it distinguishes values.
	if (unit === "percent") return `${trimmed(value, value < 10 || value > 99 ? 1 : 0)} %`;
	if (unit === "milliseconds")
		return Math.abs(value) < 10_000 ? `${trimmed(value, 1)} ms` : `${trimmed(value / 1000, 1)} s`;
	if (unit === "count") return trimmed(value, 2);
	let scaled = value;
	let index = 0;
	while (Math.abs(scaled) >= 1024 && index < BYTE_UNITS.length - 1) {
		scaled /= 1024;
		index++;
	}
	return `${trimmed(scaled, 2)} ${BYTE_UNITS[index]}`;
}

interface UnitScale {
	/** One unit of the axis in the unit of the values. */
	readonly factor: number;
	/** Name of the unit: "", "thousand", "GiB", "%". */
	readonly name: string;
}

const UNIT_SCALES: Readonly<Record<Unit, readonly (UnitScale & { readonly from: number })[]>> = {
	count: [
		{ factor: 1, name: "", from: 0 },
		{ factor: 1e3, name: "thousand", from: 1e4 },
		{ factor: 1e6, name: "million", from: 1e6 },
		{ factor: 1e9, name: "billion", from: 1e9 },
		{ factor: 1e12, name: "trillion", from: 1e12 },
	],
	bytes: BYTE_UNITS.map((name, index) => ({
		factor: 1024 ** index,
		name: index === 0 ? "bytes" : name,
		from: index === 0 ? 0 : 1000 * 1024 ** (index - 1),
	})),
	percent: [{ factor: 1, name: "%", from: 0 }],
	milliseconds: [
		{ factor: 1, name: "ms", from: 0 },
		{ factor: 1000, name: "s", from: 10_000 },
		{ factor: 60_000, name: "min", from: 600_000 },
		{ factor: 3_600_000, name: "h", from: 7_200_000 },
	],
};

/**
 * The unit of an axis up to this magnitude. The whole axis has one unit, so that labels need no
 * suffix.
 */
export function unitScale(unit: Unit, magnitude: number): UnitScale {
	const scales = UNIT_SCALES[unit];
	const largest = scales.findLast(({ from }) => magnitude >= from) ?? { factor: 1, name: "" };
	if (magnitude / largest.factor < 1e5) return largest;
	const base = unit === "count" ? { factor: 1, name: "" } : largest;
	const exponent = Math.floor(Math.log10(magnitude / base.factor));
	return { factor: base.factor * 10 ** exponent, name: `${powerOfTen(exponent)} ${base.name}`.trim() };
}

/** Rounds a coordinate to 0.1 pixels. The addition turns -0 into 0. */
export const round = (value: number) => Math.round(value * 10) / 10 + 0;

interface TextOptions {
	readonly x: number;
	readonly y: number;
	readonly sizePx: number;
	readonly className?: string;
	readonly anchor?: "start" | "middle" | "end";
	/** The full text, if `content` is shortened. */
	readonly full?: string;
}

/** A text element. All texts of a chart are written here, so that none is unescaped. */
export function text(
	content: string,
	{ x, y, sizePx, className = "text", anchor = "start", full }: TextOptions,
): string {
	if (content === "") return "";
	const anchored = anchor === "start" ? "" : ` text-anchor="${anchor}"`;
	const title = full === undefined || full === content ? "" : `<title>${escapeXml(full)}</title>`;
	return `<text class="${className}" x="${round(x)}" y="${round(y)}" font-size="${sizePx}"${anchored}>${title}${escapeXml(content)}</text>`;
}
