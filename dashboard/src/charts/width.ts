/** The width of an element in pixels, so that charts are drawn for it and their text is never scaled. */
import { type RefObject, useLayoutEffect, useRef, useState } from "react";

/** 0 before the first layout. */
export function useWidth<Kind extends HTMLElement>(): [ref: RefObject<Kind | null>, widthPx: number] {
	const ref = useRef<Kind>(null);
	const [widthPx, setWidthPx] = useState(0);
	useLayoutEffect(() => {
		const element = ref.current;
		if (element === null) return;
		const measure = () => setWidthPx(Math.floor(element.clientWidth));
		measure();
		const observer = new ResizeObserver(measure);
		observer.observe(element);
		return () => observer.disconnect();
	}, []);
	return [ref, widthPx];
}
