/**
 * A dialog that is there while it is shown. When it goes, the focus goes back to what opened it, or to the screen where that is gone; unless
 * another dialog has taken its place.
 */
import { Modal, type ModalProps } from "@mantine/core";
import { useEffect, useState } from "react";

export function Dialog(props: Omit<ModalProps, "opened" | "returnFocus">) {
	const [opener] = useState(() => document.activeElement);
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
	return <Modal opened returnFocus={false} {...props} />;
}
