/** Draws a QR code, for the pages of previews and for the dashboard. Always dark on white, because cameras expect that in any theme. */
import { encode } from "uqr";

/** Pixels of the canvas for each module of the code. */
const MODULE_PIXELS = 4;
const BORDER_MODULES = 3;

export function drawCode(canvas, text) {
	const { data, size: modules } = encode(text, { border: BORDER_MODULES });
	canvas.width = modules * MODULE_PIXELS;
	canvas.height = canvas.width;
	const context = canvas.getContext("2d");
	context.fillStyle = "#fff";
	context.fillRect(0, 0, canvas.width, canvas.height);
	context.fillStyle = "#000";
	data.forEach((row, y) => {
		row.forEach((isDark, x) => {
			if (isDark) context.fillRect(x * MODULE_PIXELS, y * MODULE_PIXELS, MODULE_PIXELS, MODULE_PIXELS);
		});
	});
}
