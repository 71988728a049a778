/** Texts to copy, and secrets that are shown only once. */
import { Button, CopyButton, Group, Stack, Text, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import { Dialog } from "./dialog";

export function Copyable({ label, value }: { readonly label: string; readonly value: string }) {
	return (
		<Group align="flex-end" wrap="nowrap">
			<TextInput
				label={label}
				readOnly
				value={value}
				flex={1}
				className="mono"
				onFocus={(event) => event.currentTarget.select()}
			/>
			<CopyButton value={value}>
				{({ copied, copy }) => (
					<Button variant="default" onClick={copy} aria-live="polite">
						{copied ? "Copied" : "Copy"}
					</Button>
				)}
			</CopyButton>
		</Group>
	);
}

export function SecretDialog({
	title,
	label,
	value,
	closeText = "I have saved it",
	onClose,
	children,
}: {
	readonly title: string;
	readonly label: string;
	readonly value: string;
	readonly closeText?: string | undefined;
	readonly onClose: () => void;
	readonly children: ReactNode;
}) {
	return (
		<Dialog onClose={onClose} title={title} size="lg" closeOnClickOutside={false} closeOnEscape={false}>
			<Stack>
				<Text size="sm">{children}</Text>
				<Copyable label={label} value={value} />
				<Group justify="flex-end">
					<Button onClick={onClose}>{closeText}</Button>
				</Group>
			</Stack>
		</Dialog>
	);
}

/** A block of code with a copy button. */
export function CodeBlock({ label, text }: { readonly label: string; readonly text: string }) {
	return (
		<Stack gap={6}>
			<Group justify="space-between">
				<Text size="sm" fw={500}>
					{label}
				</Text>
				<CopyButton value={text}>
					{({ copied, copy }) => (
						<Button size="xs" variant="default" onClick={copy} aria-label={`${copied ? "Copied" : "Copy"} ${label}`}>
							{copied ? "Copied" : "Copy"}
						</Button>
					)}
				</CopyButton>
			</Group>
			{/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
			<pre className="code-block" tabIndex={0}>
				{text}
			</pre>
		</Stack>
	);
}
