/**
 * Takes a file that is dropped anywhere on the page, and says so while it is above it. A field that
 * takes the drop by itself, and an open dialog, keep theirs.
 */
import { useEffect, useState } from "react";
import "./file-drop.css";

export function FileDrop({ text, onFile }: { readonly text: string; readonly onFile: (file: File) => void }) {
	const [isOver, setOver] = useState(false);
	useEffect(() => {
		const isTaken = (event: DragEvent) =>
			event.dataTransfer?.types.includes("Files") !== true || document.querySelector("[role=dialog]") !== null;
		const over = (event: DragEvent) => {
			if (isTaken(event)) return;
			// Without this the browser would open the file in place of the page.
			event.preventDefault();
			setOver(true);
		};
		const leave = (event: DragEvent) => {
			if (event.relatedTarget === null) setOver(false);
		};
		const drop = (event: DragEvent) => {
			setOver(false);
			const file = event.dataTransfer?.files[0];
			if (event.defaultPrevented || isTaken(event) || file === undefined) return;
			event.preventDefault();
			onFile(file);
		};
		addEventListener("dragover", over);
		addEventListener("dragleave", leave);
		addEventListener("drop", drop);
		return () => {
			removeEventListener("dragover", over);
			removeEventListener("dragleave", leave);
			removeEventListener("drop", drop);
		};
	}, [onFile]);
	return isOver ? <div className="file-drop">{text}</div> : null;
}
