/**
 * The palette from the keys that open it to its field: the file of the palette may still load, and
 * no key that somebody types meanwhile is lost or does anything else.
 */
import { lazy, Suspense, useLayoutEffect, useState } from "react";
import type { Where } from "./navigation";

const load = () => import("../palette/palette");
const Palette = lazy(load);

/** Loads the file ahead of the click or the key that opens the palette. */
export function preparePalette(): void {
	load().catch(() => undefined);
}

export function PaletteOverlay({ where, onClose }: { readonly where: Where; readonly onClose: () => void }) {
	const [text, setText] = useState("");
	const [isEntered, setEntered] = useState(false);
	useLayoutEffect(() => {
		const onKey = (event: KeyboardEvent) => {
			const isInField = event.target instanceof HTMLInputElement;
			if (isInField || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
			if (event.key.length === 1) setText((before) => before + event.key);
			else if (event.key === "Backspace") setText((before) => before.slice(0, -1));
			else if (event.key === "Enter") setEntered(true);
			else if (event.key === "Escape") onClose();
			else return;
			event.preventDefault();
			event.stopPropagation();
		};
		window.addEventListener("keydown", onKey, true);
		return () => window.removeEventListener("keydown", onKey, true);
	}, [onClose]);
	return (
		<Suspense>
			<Palette
				where={where}
				text={text}
				onText={setText}
				isEntered={isEntered}
				onEntered={setEntered}
				onClose={onClose}
			/>
		</Suspense>
	);
}
