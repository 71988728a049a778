/**
 * Short confirmations that an action is done. They disappear after some seconds and never take the
 * focus.
 */
import { Button } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import type { AnswerOf } from "../api";

/** Longer than without, because a person decides whether to undo. */
const UNDO_SHOWN_MS = 15_000;

export function notify(message: string): void {
	notifications.show({ message, closeButtonProps: { "aria-label": "Close" } });
}

/** With a button that takes the action back. */
export function notifyWithUndo(message: string, undoText: string, undo: () => void): void {
	const id = notifications.show({
		message: (
			<span className="row between">
				{message}
				<Button
					size="xs"
					variant="default"
					onClick={() => {
						notifications.hide(id);
						undo();
					}}
				>
					{undoText}
				</Button>
			</span>
		),
		autoClose: UNDO_SHOWN_MS,
		closeButtonProps: { "aria-label": "Close" },
	});
}

/** A change of a protected channel may wait for approval; the API's message then says so. */
export function notifyChannelChange(answer: AnswerOf<"POST /channel">, done: string): void {
	notify(answer.status === "pending_approval" ? answer.message : done);
}
