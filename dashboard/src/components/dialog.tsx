/**
 * A modal dialog, mounted only while it is open. When it closes, the focus returns to the element
 * that opened it, or to the content if that element no longer exists. If another dialog is open,
 * the focus stays there.
 */
import { Modal, type ModalProps } from "@mantine/core";
import { useEffect, useState } from "react";

/** Open dialogs, the top one last. Escape closes only the top one. */
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
