/**
 * The question before something is destroyed. It names what goes; where that is a lot, the name has to be typed. It stays open while the API
 * works, and shows what the API refuses.
 */
import { Button, Group, Stack, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { Problem } from "./answer";
import { Dialog } from "./dialog";
import { Waiting } from "./waiting";

export function Confirm({
	title,
	action,
	typed,
	isPending,
	waiting,
	isReady = true,
	error,
	onConfirm,
	onClose,
	children,
}: {
	readonly title: string;
	/** On the button, e.g. `Delete channel pr-128`. */
	readonly action: string;
	/** What has to be typed first. */
	readonly typed?: string;
	readonly isPending: boolean;
	/** What is awaited, where that takes longer than a moment. */
	readonly waiting?: string;
	readonly isReady?: boolean;
	readonly error?: Error | null;
	readonly onConfirm: () => void;
	readonly onClose: () => void;
	readonly children: ReactNode;
}) {
	const [text, setText] = useState("");
	const isMeant = typed === undefined || text === typed;
	return (
		<Dialog onClose={onClose} title={title} size="lg">
			<form
				onSubmit={(event) => {
					event.preventDefault();
					if (isMeant && isReady) onConfirm();
				}}
			>
				<Stack>
					{children}
					{typed === undefined ? null : (
						<TextInput
							label={`Type ${typed} to go on`}
							value={text}
							autoComplete="off"
							onChange={(event) => setText(event.currentTarget.value)}
						/>
					)}
					{error === undefined || error === null ? null : <Problem error={error} />}
					<Waiting isPending={isPending} text={waiting} />
					<Group justify="flex-end">
						<Button variant="default" onClick={onClose}>
							Cancel
						</Button>
						<Button type="submit" color="red" loading={isPending} disabled={!isMeant || !isReady}>
							{action}
						</Button>
					</Group>
				</Stack>
			</form>
		</Dialog>
	);
}
