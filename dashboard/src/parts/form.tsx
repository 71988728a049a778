/** A form in a dialog: it stays open while the API works, and shows what the API refuses. */
import { Button, Group, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { Problem } from "./answer";
import { Dialog } from "./dialog";
import { Waiting } from "./waiting";

export function FormDialog({
	title,
	action,
	isPending,
	waiting,
	isReady = true,
	error,
	onSubmit,
	onClose,
	children,
}: {
	readonly title: string;
	/** On the button. */
	readonly action: string;
	readonly isPending: boolean;
	/** What is awaited, where that takes longer than a moment. */
	readonly waiting?: string;
	readonly isReady?: boolean;
	readonly error?: Error | null;
	readonly onSubmit: () => void;
	readonly onClose: () => void;
	readonly children: ReactNode;
}) {
	return (
		<Dialog onClose={onClose} title={title} size="lg">
			<form
				onSubmit={(event) => {
					event.preventDefault();
					onSubmit();
				}}
			>
				<Stack>
					{children}
					{error === undefined || error === null ? null : <Problem error={error} />}
					<Waiting isPending={isPending} text={waiting} />
					<Group justify="flex-end">
						<Button variant="default" onClick={onClose}>
							Cancel
						</Button>
						<Button type="submit" loading={isPending} disabled={!isReady}>
							{action}
						</Button>
					</Group>
				</Stack>
			</form>
		</Dialog>
	);
}
