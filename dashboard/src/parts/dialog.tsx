/**
 * A dialog that is there while it is shown. When it goes, the focus goes back to what opened it, or to the screen where that is gone; unless
 * another dialog has taken its place.
 */
import { Modal, type ModalProps } from "@mantine/core";
import { useEffect, useState } from "react";

/** The dialogs that are open, the top one last: Escape closes that one only. */
const open: object[] = [];

export function Dialog({ onClose, ...props }: Omit<ModalProps, "opened" | "returnFocus">) {
	const [opener] = useState(() => document.activeElement);
	const [self] = useState(() => ({}));
	useEffect(() => {
		open.push(self);
		return () => void open.splice(open.indexOf(self), 1);
	}, [self]);
	useEffect(
		() => () => {
			requestAnimationFrame(() => {
				if (document.querySelector("[role=dialog]") !== null) return;
				const target = opener?.isConnected === true ? opener : document.getElementById("content");
				if (target instanceof HTMLElement) target.focus({ preventScroll: true });
			});
		},
		[opener],
	);
	return (
		<Modal
			opened
			returnFocus={false}
			onClose={() => {
				if (open.at(-1) === self) onClose();
			}}
			{...props}
		/>
	);
}
