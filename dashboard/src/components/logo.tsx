/** The mark, in the colour of the text. It is never coloured, rotated or animated. */
import { MARK } from "../../../src/domain/words/mark";

export function Mark() {
	return (
		<svg className="icon mark" viewBox="0 0 16 16" fill="currentColor" aria-hidden="true" focusable="false">
			<path d={MARK} />
		</svg>
	);
}
