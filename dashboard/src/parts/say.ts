/** Tells that something was done, for a few seconds, without taking the focus. */
import { notifications } from "@mantine/notifications";

export function say(message: string): void {
	notifications.show({ message, closeButtonProps: { "aria-label": "Close" } });
}
