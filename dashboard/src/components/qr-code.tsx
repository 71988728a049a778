/** A QR code for the camera of a phone, drawn as on the pages of previews. */
import { useEffect, useRef } from "react";
import { drawCode } from "../../../src/pages/qr-code.js";

export function QrCode({ text, label }: { readonly text: string; readonly label: string }) {
	const canvas = useRef<HTMLCanvasElement>(null);
	useEffect(() => {
		if (canvas.current !== null) drawCode(canvas.current, text);
	}, [text]);
	return <canvas ref={canvas} className="qr" role="img" aria-label={label} />;
}
