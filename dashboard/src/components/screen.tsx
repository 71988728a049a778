/**
 * The frame of a screen, its sections and its empty state. The heading is also the title of the tab, and takes the focus after a navigation,
 * so that screen readers announce the new screen.
 */
import { Group, Paper, Stack, Text, Title } from "@mantine/core";
import { type ReactNode, useEffect, useRef } from "react";

let isFirstScreen = true;

export function Screen({
	title,
	note,
	actions,
	children,
}: {
	readonly title: string;
	readonly note?: ReactNode;
	readonly actions?: ReactNode;
	readonly children: ReactNode;
}) {
	const heading = useRef<HTMLHeadingElement>(null);
	useEffect(() => {
		document.title = `${title} · Capstan`;
	}, [title]);
	useEffect(() => {
		if (isFirstScreen) isFirstScreen = false;
		else heading.current?.focus({ preventScroll: true });
	}, []);
	return (
		<Stack gap="lg">
			<Group justify="space-between" align="flex-start" gap="md">
				<Stack gap={4}>
					<Title order={1} size="h2" ref={heading} tabIndex={-1} className="screen-title">
						{title}
					</Title>
					{note === undefined ? null : <Text c="dimmed">{note}</Text>}
				</Stack>
				{actions === undefined ? null : <Group gap="sm">{actions}</Group>}
			</Group>
			{children}
		</Stack>
	);
}

/** An empty state: what is missing and what to do next. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
	return (
		<Paper withBorder p="xl" ta="center">
			<Stack gap="xs" align="center">
				<Text fw={600}>{title}</Text>
				<Text component="div" c="dimmed" maw="34rem">
					{children}
				</Text>
			</Stack>
		</Paper>
	);
}

export function Section({
	title,
	actions,
	children,
}: {
	readonly title: string;
	readonly actions?: ReactNode;
	readonly children: ReactNode;
}) {
	return (
		<Stack gap="sm" component="section">
			<Group justify="space-between">
				<Title order={2} size="h4">
					{title}
				</Title>
				{actions}
			</Group>
			{children}
		</Stack>
	);
}
