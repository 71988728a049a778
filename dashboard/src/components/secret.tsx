/** Texts to copy, and secrets that are shown only once. */
import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import { IconCheck, IconCopy } from "../icons";
import { CopyButton, useCopy } from "./copy-chip";
import { Dialog } from "./dialog";
import { Icon } from "./icon";

export function Copyable({ label, value }: { readonly label: string; readonly value: string }) {
	const { isCopied, copy } = useCopy(value);
	return (
		<Group align="flex-end" wrap="nowrap">
			<TextInput
				label={label}
				readOnly
				value={value}
				flex={1}
				classNames={{ input: "mono" }}
				onFocus={(event) => event.currentTarget.select()}
			/>
			<Button
				variant="default"
				onClick={copy}
				aria-live="polite"
				leftSection={<Icon of={isCopied ? IconCheck : IconCopy} size="s" />}
			>
				{isCopied ? "Copied" : "Copy"}
			</Button>
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
					<Button disabled={false} onClick={onClose}>
						{closeText}
					</Button>
				</Group>
			</Stack>
		</Dialog>
	);
}

/** A block of code with a copy button. */
export function CodeBlock({ label, text }: { readonly label: string; readonly text: string }) {
	return (
		<div className="stack">
			<span className="strong">{label}</span>
			<div className="code-block">
				<pre className="code">{text}</pre>
				<CopyButton value={text} name={label} />
			</div>
		</div>
	);
}
