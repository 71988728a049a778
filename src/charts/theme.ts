/**
 * Style sheet of the API's charts, in light and dark. Categories have a contrast of at least 3 : 1
 * to the background and all text at least 4.5 : 1. Pale versions stay below on purpose: a line in
 * the background colour divides them, and their names stand beside them. All rules are scoped to
 * the chart, because it may be part of a page.
 */
import { DARK_PALETTE, LIGHT_PALETTE, type Palette, TONES } from "./palette";

export interface Theme {
	readonly background: string;
	readonly text: string;
	readonly mutedText: string;
	readonly grid: string;
	readonly axis: string;
	readonly palette: Palette;
}

export const LIGHT: Theme = {
	background: "#ffffff",
	text: "#14171c",
	mutedText: "#5f6773",
	grid: "#e4e7ec",
	axis: "#8b93a1",
	palette: LIGHT_PALETTE,
};

export const DARK: Theme = {
	background: "#121519",
	text: "#eceef2",
	mutedText: "#929ba8",
	grid: "#242a32",
	axis: "#6d7684",
	palette: DARK_PALETTE,
};

function themeRules(theme: Theme): string {
	const rules: readonly (readonly [string, string])[] = [
		[".background", `fill:${theme.background}`],
		[".text", `fill:${theme.text}`],
		[".muted", `fill:${theme.mutedText}`],
		[".grid", `stroke:${theme.grid}`],
		[".axis", `stroke:${theme.axis}`],
		[".release", `stroke:${theme.axis}`],
		[".flag", `fill:${theme.background};stroke:${theme.axis}`],
		[".band", `stroke:${theme.background}`],
		...TONES.map((tone) => [`.tone-${tone}`, `color:${theme.palette[tone]}`] as const),
	];
	return rules.map(([selector, body]) => `.capstan-chart ${selector}{${body}}`).join("");
}

const SANS =
	'-apple-system,BlinkMacSystemFont,"Segoe UI Variable Text","Segoe UI",Roboto,"Helvetica Neue","Liberation Sans",Arial,sans-serif';

export const STYLE_SHEET = [
	`.capstan-chart{max-width:100%;height:auto;font-family:${SANS};font-variant-numeric:tabular-nums}`,
	".capstan-chart .title{font-weight:600}",
	".capstan-chart .grid,.capstan-chart .axis{stroke-width:1;fill:none}",
	".capstan-chart .release{stroke-width:1;stroke-dasharray:2 3;fill:none}",
	".capstan-chart .line{stroke:currentColor;fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}",
	".capstan-chart .band,.capstan-chart .marker,.capstan-chart .under{fill:currentColor}",
	".capstan-chart .under{fill-opacity:.08}",
	".capstan-chart .band{stroke-width:1}",
	".capstan-chart .dense.line{stroke-width:1.5}",
	".capstan-chart .dense.band{stroke-width:.25}",
	themeRules(LIGHT),
	`@media (prefers-color-scheme:dark){${themeRules(DARK)}}`,
].join("");
