/** Reads the SVG of a chart: its elements, texts, boxes and paths. */
import { DOMParser, type Element } from "@xmldom/xmldom";
import { expect } from "vitest";
import { estimatedWidthPx } from "../../../src/charts/text";
import { daysFrom } from "../../proof/charts/cases";

export const MARCH = daysFrom("2026-03-01", 31);

export function parse(svg: string): Element {
	const parser = new DOMParser({
		onError: (level, message) => {
			// U+FFFD stands for what XML cannot write; the parser only wonders about it.
			if (!message.startsWith("Unicode replacement character")) throw new Error(`${level}: ${message}`);
		},
	});
	const root = parser.parseFromString(svg, "image/svg+xml").documentElement;
	if (root === null) throw new Error("no root element");
	return root;
}

export const elements = (root: Element, name = "*"): Element[] => Array.from(root.getElementsByTagName(name));

export const withClass = (root: Element, name: string) =>
	elements(root).filter((element) => (element.getAttribute("class") ?? "").split(" ").includes(name));

export const numeric = (element: Element, name: string) => Number(element.getAttribute(name));

export function one(found: readonly Element[]): Element {
	const [element] = found;
	if (element === undefined || found.length !== 1) throw new Error(`${found.length} elements instead of one`);
	return element;
}

/** The text itself, without its <title>. */
export const shown = (element: Element) =>
	Array.from(element.childNodes)
		.filter((node) => node.nodeType === 3)
		.map((node) => node.nodeValue)
		.join("");

export const texts = (root: Element) => elements(root, "text").map(shown);

export interface Box {
	readonly content: string;
	readonly left: number;
	readonly right: number;
	readonly top: number;
	readonly bottom: number;
}

export function boxOf(element: Element): Box {
	const content = shown(element);
	const sizePx = numeric(element, "font-size");
	const widthPx = estimatedWidthPx(content, sizePx);
	const anchor = element.getAttribute("text-anchor");
	const x = numeric(element, "x");
	const left = x - (anchor === "end" ? widthPx : anchor === "middle" ? widthPx / 2 : 0);
	const y = numeric(element, "y");
	return { content, left, right: left + widthPx, top: y - sizePx * 0.76, bottom: y + sizePx * 0.22 };
}

/** Half a pixel for the rounding of coordinates. */
export const touches = (a: Box, b: Box) =>
	a.left + 0.5 < b.right && b.left + 0.5 < a.right && a.top + 0.5 < b.bottom && b.top + 0.5 < a.bottom;

export interface Point {
	readonly x: number;
	readonly y: number;
}

/** The corners of a path of absolute M, L, H, V and Z, one list a subpath. */
export function cornersOf(path: string): Point[][] {
	const subpaths: Point[][] = [];
	let x = 0;
	let y = 0;
	for (const [, command, body = ""] of path.matchAll(/([A-Za-z])([^A-Za-z]*)/g)) {
		const numbers = body.split(/[ ,]+/).filter(Boolean).map(Number);
		if (command === "Z") continue;
		if (command === "H") x = numbers[0] ?? Number.NaN;
		else if (command === "V") y = numbers[0] ?? Number.NaN;
		else if (command === "M" || command === "L") [x = Number.NaN, y = Number.NaN] = numbers;
		else throw new Error(`command ${command}`);
		if (command === "M") subpaths.push([]);
		subpaths.at(-1)?.push({ x, y });
	}
	return subpaths;
}

export const pathOf = (element: Element) => element.getAttribute("d") ?? "";

export function plotOf(panel: Element) {
	const plot = one(withClass(panel, "plot"));
	const [left = 0, top = 0, right = 0, bottom = 0] = (plot.getAttribute("data-plot") ?? "").split(" ").map(Number);
	const marks = [
		...["line", "under", "band"]
			.flatMap((name) => withClass(plot, name))
			.flatMap((path) => cornersOf(pathOf(path)).flat()),
		...withClass(plot, "marker").map((marker): Point => ({ x: numeric(marker, "cx"), y: numeric(marker, "cy") })),
	];
	return { plot, left, top, right, bottom, marks };
}

export const ELEMENTS = new Set(["svg", "title", "desc", "style", "rect", "g", "path", "circle", "text"]);

export const UNSOUND_VALUE = /NaN|undefined|Infinity|null|[<>]|url\(|e[+-]?\d/;

export const ATTRIBUTES = new Set([
	...["xmlns", "class", "lang", "role", "width", "height", "viewBox", "x", "y", "rx", "cx", "cy", "r", "d"],
	...["font-size", "text-anchor", "data-plot"],
]);

/** Holds for every chart. */
export function expectSound(svg: string): void {
	const root = parse(svg);
	// Compared by hand: `expect` is slow for thousands of attributes.
	for (const element of elements(root)) {
		if (!ELEMENTS.has(element.tagName)) throw new Error(`element ${element.tagName}`);
		for (const { name, value } of Array.from(element.attributes)) {
			if (!ATTRIBUTES.has(name) || UNSOUND_VALUE.test(value)) throw new Error(`${element.tagName} ${name}="${value}"`);
		}
	}
	expect(root.getAttribute("role")).toBe("img");
	expect(root.getAttribute("viewBox")).toBe(`0 0 ${root.getAttribute("width")} ${root.getAttribute("height")}`);
	const [title, description, style] = Array.from(root.childNodes).filter((node) => node.nodeType === 1);
	expect([title?.nodeName, description?.nodeName, style?.nodeName]).toEqual(["title", "desc", "style"]);
	expect(title?.textContent).not.toBe("");
	expect(description?.textContent).toMatch(/^(Line|Stacked) chart of /);
	expect(style?.textContent).not.toMatch(/url|@import|expression|[<&]/);
	expect(svg.replace("http://www.w3.org/2000/svg", "")).not.toMatch(/(href|src)="?(https?:|\/\/)/);

	const width = numeric(root, "width");
	const height = numeric(root, "height");
	const boxes = elements(root, "text").map(boxOf);
	for (const [position, box] of boxes.entries()) {
		const isInside = box.left >= 0 && box.right <= width && box.top >= 0 && box.bottom <= height;
		if (!isInside) throw new Error(`${JSON.stringify(box)} is outside of the chart`);
		for (const other of boxes.slice(position + 1)) {
			if (touches(box, other)) throw new Error(`"${box.content}" touches "${other.content}"`);
		}
	}
	const { left, top, right, bottom, marks } = plotOf(root);
	expect(bottom - top).toBeGreaterThan(60);
	for (const { x, y } of marks) {
		const isInside = x >= left - 0.1 && x <= right + 0.1 && y >= top - 0.1 && y <= bottom + 0.1;
		if (!isInside) throw new Error(`${x},${y} is outside of ${[left, top, right, bottom]}`);
	}
}
