/**
 * Forms in dialogs. A form dialog stays open while its request runs, and shows the error if the API
 * refuses it; Ctrl or ⌘ with Enter submits it from any field. A confirmation names what will be
 * deleted; for large deletions the name must be typed.
 */
import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { type DragEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { IconAlertTriangle } from "../icons";
import { Problem } from "./answer";
import { Dialog, useCloseDialog } from "./dialog";
import { useIsOnline } from "./online";
import { Spot } from "./timeline";

const WIDE_PX = 912;

interface FormProps {
	readonly title: string;
	/** Label of the submit button, e.g. `Delete channel pr-128`. */
	readonly action: string;
	readonly isPending: boolean;
	/** Shown while the request runs, for requests that take longer than a second. */
	readonly waiting?: string;
	readonly isReady?: boolean;
	readonly error?: Error | null;
	/** Whether closing would lose something; undefined: a field differs from what it was. */
	readonly isDirty?: boolean;
	readonly onClose: () => void;
	readonly children: ReactNode;
}

/** A wide form has a second column beside its fields, with what the form will do. */
interface WideProps {
	readonly aside?: ReactNode;
	/** One sentence beside the buttons. */
	readonly footnote?: ReactNode;
	/** A button in the place of "Cancel", which closes without a question. */
	readonly stop?: ReactNode;
	/** Drawn in the place of the submit button, while it has nothing to do. */
	readonly instead?: ReactNode;
	readonly icon?: ReactNode;
	readonly onDrop?: (event: DragEvent) => void;
}

export function FormDialog({
	title,
	action,
	isPending,
	waiting,
	isReady = true,
	isDestructive = false,
	isDirty,
	error,
	aside,
	footnote,
	stop,
	instead,
	icon,
	onDrop,
	onSubmit,
	onClose,
	children,
}: FormProps & WideProps & { readonly isDestructive?: boolean; readonly onSubmit: () => void }) {
	const isOnline = useIsOnline();
	const form = useRef<HTMLFormElement>(null);
	useEffect(() => {
		// The refused field may be outside of what is visible, and a screen reader reads its error with
		// it.
		if (!isPending) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
	}, [isPending]);
	const fields = (
		<Stack>
			{children}
			{error === undefined || error === null ? null : <Problem error={error} />}
			{isPending && waiting !== undefined ? (
				<Text size="sm" role="status">
					{waiting}
				</Text>
			) : null}
		</Stack>
	);
	const buttons = (
		<Group justify="flex-end" gap="sm">
			{stop ?? <Cancel isFirst={isDestructive} />}
			{instead ?? (
				<Button
					type="submit"
					{...(isDestructive ? { color: "red" } : {})}
					leftSection={icon}
					loading={isPending}
					disabled={!isReady || !isOnline}
				>
					{action}
				</Button>
			)}
		</Group>
	);
	return (
		<Dialog
			onClose={onClose}
			isDirty={isPending ? false : isDirty}
			{...(aside === undefined ? {} : { className: "wide-dialog" })}
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
			size={aside === undefined ? "lg" : WIDE_PX}
		>
			<form
				ref={form}
				onKeyDown={(event) => {
					// A destructive dialog needs its button.
					if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || isDestructive) return;
					event.preventDefault();
					event.currentTarget.requestSubmit();
				}}
				{...(onDrop === undefined ? {} : { onDrop, onDragOver: (event: DragEvent) => event.preventDefault() })}
				onSubmit={(event) => {
					event.preventDefault();
					if (isReady && isOnline && !isPending && instead === undefined) onSubmit();
				}}
			>
				{aside === undefined ? (
					<Stack>
						{fields}
						{buttons}
					</Stack>
				) : (
					<>
						<div className="wide-columns">
							<div>{fields}</div>
							{aside}
						</div>
						<div className="wide-buttons">
							<div className="grow stack">{footnote}</div>
							{buttons}
						</div>
					</>
				)}
			</form>
		</Dialog>
	);
}

function Cancel({ isFirst }: { readonly isFirst: boolean }) {
	return (
		<Button
			variant="subtle"
			disabled={false}
			onClick={useCloseDialog()}
			{...(isFirst ? { "data-autofocus": true } : {})}
		>
			Cancel
		</Button>
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
			isDirty={false}
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
