/**
 * The smallest parts of a drawing: rounded coordinates and text. Whatever text is written into a chart is written here, so that nothing
 * gets in unescaped.
 */
import { escapeXml } from "./chart-text";

/** A tenth of a pixel is as exact as an eye. The sum turns a negative zero into a plain one. */
export const round = (value: number) => Math.round(value * 10) / 10 + 0;

export interface TextOptions {
	readonly x: number;
	readonly y: number;
	readonly sizePx: number;
	readonly className?: string;
	readonly anchor?: "start" | "middle" | "end";
	/** The whole of a shortened text. */
	readonly full?: string;
}

export function text(
	content: string,
	{ x, y, sizePx, className = "text", anchor = "start", full }: TextOptions,
): string {
	if (content === "") return "";
	const anchored = anchor === "start" ? "" : ` text-anchor="${anchor}"`;
	const title = full === undefined || full === content ? "" : `<title>${escapeXml(full)}</title>`;
	return `<text class="${className}" x="${round(x)}" y="${round(y)}" font-size="${sizePx}"${anchored}>${title}${escapeXml(content)}</text>`;
}
