/**
 * Light and dark theme of the charts. Every series has a contrast of at least 3.2 : 1 to its background and all text at least 4.5 : 1. Any two
 * series differ for each common kind of colour blindness, and by more than colour: lines by dashes and markers, bands by numbers. All rules are
 * scoped to the chart, because it may be part of a page.
 */
import {
	type SymbolType,
	symbolCircle,
	symbolCross,
	symbolDiamond,
	symbolSquare,
	symbolStar,
	symbolTriangle,
	symbolWye,
} from "d3-shape";

/** As many series as a reader can distinguish; the others are added up. */
export const SERIES_LIMIT = 8;

export interface Theme {
	readonly background: string;
	readonly text: string;
	readonly mutedText: string;
	readonly grid: string;
	readonly axis: string;
	/** By slot: 0 is the sum of the other series, 1 to 8 are the named ones. */
	readonly series: readonly string[];
}

export const LIGHT: Theme = {
	background: "#ffffff",
	text: "#1f2328",
	mutedText: "#59636e",
	grid: "#e4e8ec",
	axis: "#818b98",
	series: ["#737b84", "#1a66d0", "#bd8528", "#0f6d07", "#a51a97", "#249bbd", "#652608", "#412a64", "#d01f50"],
};

export const DARK: Theme = {
	background: "#14181d",
	text: "#f0f3f6",
	mutedText: "#a7b0ba",
	grid: "#2b323a",
	axis: "#76808b",
	series: ["#8b949e", "#4c8dff", "#fdf057", "#26ce9b", "#ad3ca0", "#a1fdf9", "#fe9a23", "#cbb8ff", "#de4b43"],
};

/** By slot. */
export const DASHES = ["1 2", "", "7 3", "2 3", "11 4 2 4", "15 4", "5 2 1 2", "9 2 2 2 2 2", "4 5"] as const;
export const MARKERS: readonly SymbolType[] = [
	symbolCircle,
	symbolCircle,
	symbolSquare,
	symbolTriangle,
	symbolDiamond,
	symbolCross,
	symbolStar,
	symbolWye,
	symbolTriangle,
];
/** The slot whose marker is turned upside down. */
export const TURNED_MARKER = 8;

function luminance(colour: string): number {
	const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((start) => {
		const channel = Number.parseInt(colour.slice(start, start + 2), 16) / 255;
		return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
	});
	return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** The contrast ratio of WCAG 2, 1 to 21. */
export function contrastRatio(one: string, other: string): number {
	const [darker = 0, lighter = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
	return (lighter + 0.05) / (darker + 0.05);
}

/** Colour of text on a band of this colour. */
export function inkOn(colour: string): string {
	return contrastRatio(colour, "#ffffff") >= contrastRatio(colour, "#000000") ? "#ffffff" : "#000000";
}

function themeRules(theme: Theme): string {
	const rules: readonly (readonly [string, string])[] = [
		[".background", `fill:${theme.background}`],
		[".text", `fill:${theme.text}`],
		[".muted", `fill:${theme.mutedText}`],
		[".grid", `stroke:${theme.grid}`],
		[".axis", `stroke:${theme.axis}`],
		[".band", `stroke:${theme.background}`],
		...theme.series.flatMap((colour, slot) => [
			[`.series-${slot}`, `color:${colour}`] as const,
			[`.ink-${slot}`, `fill:${inkOn(colour)}`] as const,
		]),
	];
	return rules.map(([selector, body]) => `.capstan-chart ${selector}{${body}}`).join("");
}

/** Below this width the narrow layout is shown. In an `<img>` the width is that of the image. */
const NARROW_BELOW_PX = 540;

export const STYLE_SHEET = [
	'.capstan-chart{max-width:100%;height:auto;font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}',
	".capstan-chart .title{font-weight:600}",
	".capstan-chart .grid,.capstan-chart .axis{stroke-width:1;fill:none}",
	".capstan-chart .line{stroke:currentColor;fill:none;stroke-width:2;stroke-linejoin:round}",
	".capstan-chart .band,.capstan-chart .marker,.capstan-chart .under{fill:currentColor}",
	".capstan-chart .under{fill-opacity:.14}",
	".capstan-chart .band{stroke-width:.6}",
	".capstan-chart .dense.line{stroke-width:1.4}",
	".capstan-chart .dense.band{stroke-width:.25}",
	".capstan-chart .number{font-weight:600}",
	themeRules(LIGHT),
	`@media (prefers-color-scheme:dark){${themeRules(DARK)}}`,
	`@media (max-width:${NARROW_BELOW_PX}px){.capstan-chart .wide{display:none}.capstan-chart .narrow{display:inline}}`,
].join("");
