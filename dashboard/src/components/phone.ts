/**
 * Whether the window has the width of a phone, where the sidebar becomes a tab bar. The same width
 * as in the style sheets.
 */
import { useSyncExternalStore } from "react";

const width = matchMedia("(max-width: 760px)");

function subscribe(onChange: () => void): () => void {
	width.addEventListener("change", onChange);
	return () => width.removeEventListener("change", onChange);
}

export const useIsPhone = () => useSyncExternalStore(subscribe, () => width.matches);
