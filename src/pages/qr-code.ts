/** Draws a QR code, for the pages of previews and for the dashboard. Always dark on white, because cameras expect that in any theme. */
import { encode } from "uqr";

/** Pixels of the canvas for each module of the code. */
const MODULE_PIXELS = 4;
const BORDER_MODULES = 3;

/** The part of a canvas element that is used, because the Worker's types have none. */
interface Canvas {
	width: number;
	height: number;
	getContext(kind: "2d"): {
		fillStyle: unknown;
		fillRect(x: number, y: number, width: number, height: number): void;
	} | null;
}

export function drawCode(canvas: Canvas, text: string): void {
	const { data, size: modules } = encode(text, { border: BORDER_MODULES });
	canvas.width = modules * MODULE_PIXELS;
	canvas.height = canvas.width;
	const context = canvas.getContext("2d");
	if (context === null) return;
	context.fillStyle = "#fff";
	context.fillRect(0, 0, canvas.width, canvas.height);
	context.fillStyle = "#000";
	for (const [y, row] of data.entries()) {
		for (const [x, isDark] of row.entries()) {
			if (isDark) context.fillRect(x * MODULE_PIXELS, y * MODULE_PIXELS, MODULE_PIXELS, MODULE_PIXELS);
		}
	}
}
