/**
 * One icon of the set, at the size of its text: `s` in dense text, `l` in tabs. Decoration only:
 * the control beside it has the name.
 */
import type { IconDrawing } from "../icons";

export function Icon({ of: Drawing, size }: { readonly of: IconDrawing; readonly size?: "s" | "l" }) {
	return <Drawing className={size === undefined ? "icon" : `icon ${size}`} aria-hidden="true" focusable="false" />;
}
