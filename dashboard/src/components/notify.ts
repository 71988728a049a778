/** Short confirmations that an action is done. They disappear after some seconds and never take the focus. */
import { notifications } from "@mantine/notifications";
import type { AnswerOf } from "../api";

export function notify(message: string): void {
	notifications.show({ message, closeButtonProps: { "aria-label": "Close" } });
}

/** A change of a protected channel may wait for approval; the API's message then says so. */
export function notifyChannelChange(answer: AnswerOf<"POST /channel">, done: string): void {
	notify(answer.status === "pending_approval" ? answer.message : done);
}
