/** The mark: a capstan from the side, one path in the colour of the text. It is never coloured, rotated or animated. */
export function Mark() {
	return (
		<svg className="icon mark" viewBox="0 0 16 16" fill="currentColor" aria-hidden="true" focusable="false">
			<path d="M5 1h6a1.5 1.5 0 0 1 1.42 1H15a1 1 0 0 1 0 2h-2.58A1.5 1.5 0 0 1 11 5H5a1.5 1.5 0 0 1-1.42-1H1a1 1 0 0 1 0-2h2.58A1.5 1.5 0 0 1 5 1ZM4.6 6h6.8c-.9 1-1.3 1.9-1.3 2.8 0 1.2.8 2.2 2.4 3.2h-9c1.6-1 2.4-2 2.4-3.2 0-.9-.4-1.8-1.3-2.8ZM3 13h10a1 1 0 0 1 0 2H3a1 1 0 0 1 0-2Z" />
		</svg>
	);
}
