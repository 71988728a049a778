/**
 * Forms in dialogs. A form dialog stays open while its request runs, and shows the error if the API
 * refuses it. A confirmation names what will be deleted; for large deletions the name must be
 * typed.
 */
import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { IconAlertTriangle } from "../icons";
import { Problem } from "./answer";
import { Dialog } from "./dialog";
import { useIsOnline } from "./online";
import { Spot } from "./timeline";

interface FormProps {
	readonly title: string;
	/** Label of the submit button, e.g. `Delete channel pr-128`. */
	readonly action: string;
	readonly isPending: boolean;
	/** Shown while the request runs, for requests that take longer than a second. */
	readonly waiting?: string;
	readonly isReady?: boolean;
	readonly error?: Error | null;
	readonly onClose: () => void;
	readonly children: ReactNode;
}

export function FormDialog({
	title,
	action,
	isPending,
	waiting,
	isReady = true,
	isDestructive = false,
	error,
	onSubmit,
	onClose,
	children,
}: FormProps & { readonly isDestructive?: boolean; readonly onSubmit: () => void }) {
	const isOnline = useIsOnline();
	const form = useRef<HTMLFormElement>(null);
	useEffect(() => {
		// The refused field may be outside of what is visible, and a screen reader reads its error with
		// it.
		if (!isPending) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
	}, [isPending]);
	return (
		<Dialog
			onClose={onClose}
			title={
				isDestructive ? (
					<span className="row">
						<Spot icon={IconAlertTriangle} tone="bad" />
						{title}
					</span>
				) : (
					title
				)
			}
			size="lg"
		>
			<form
				ref={form}
				onSubmit={(event) => {
					event.preventDefault();
					if (isReady && isOnline) onSubmit();
				}}
			>
				<Stack>
					{children}
					{error === undefined || error === null ? null : <Problem error={error} />}
					{isPending && waiting !== undefined ? (
						<Text size="sm" role="status">
							{waiting}
						</Text>
					) : null}
					<Group justify="flex-end">
						<Button variant="subtle" disabled={false} onClick={onClose}>
							Cancel
						</Button>
						<Button
							type="submit"
							{...(isDestructive ? { color: "red" } : {})}
							loading={isPending}
							disabled={!isReady || !isOnline}
						>
							{action}
						</Button>
					</Group>
				</Stack>
			</form>
		</Dialog>
	);
}

export function Confirm({
	typed,
	isReady = true,
	onConfirm,
	children,
	...form
}: FormProps & {
	/** Text that must be typed first. */
	readonly typed?: string;
	readonly onConfirm: () => void;
}) {
	const [text, setText] = useState("");
	return (
		<FormDialog
			{...form}
			isDestructive
			isReady={isReady && (typed === undefined || text === typed)}
			onSubmit={onConfirm}
		>
			{children}
			{typed === undefined ? null : (
				<TextInput
					label={`Type ${typed} to confirm`}
					value={text}
					autoComplete="off"
					onChange={(event) => setText(event.currentTarget.value)}
				/>
			)}
		</FormDialog>
	);
}
