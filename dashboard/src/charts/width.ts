/**
 * The width of an element in pixels, so that charts are drawn for it and their text is never
 * scaled.
 */
import { type RefCallback, useCallback, useState } from "react";

/** 0 before the first layout. */
export function useWidth<Kind extends HTMLElement>(): [ref: RefCallback<Kind>, widthPx: number] {
	const [widthPx, setWidthPx] = useState(0);
	// A callback, because the element may appear after the component.
	const ref = useCallback((element: Kind | null) => {
		if (element === null) return;
		const measure = () => setWidthPx(Math.floor(element.clientWidth));
		measure();
		const observer = new ResizeObserver(measure);
		observer.observe(element);
		return () => observer.disconnect();
	}, []);
	return [ref, widthPx];
}
