/**
 * Settings of one subject in a card: heading and one sentence at the left, fields at the right. The
 * footer appears with the first change, names what changes, and has the only button that saves.
 */
import { Button } from "@mantine/core";
import { type ReactNode, useEffect } from "react";
import { Problem } from "./answer";
import { useIsOnline } from "./online";
import "./settings-card.css";

export function SettingsCard({
	title,
	note,
	action,
	changes,
	keeps,
	isReady = true,
	isPending,
	error,
	onSave,
	onDiscard,
	children,
}: {
	readonly title: string;
	readonly note: ReactNode;
	/** Label of the button, e.g. `Save retention`. */
	readonly action: string;
	/** Each change in words, e.g. `name` or `12 h → 24 h`; empty: nothing is changed. */
	readonly changes: readonly string[];
	/** A sentence about what the change does not touch. */
	readonly keeps?: string | undefined;
	readonly isReady?: boolean;
	readonly isPending: boolean;
	readonly error?: Error | null;
	readonly onSave: () => void;
	readonly onDiscard: () => void;
	readonly children: ReactNode;
}) {
	const isOnline = useIsOnline();
	const isChanged = changes.length > 0;
	useEffect(() => {
		if (!isChanged) return;
		const ask = (event: BeforeUnloadEvent) => event.preventDefault();
		addEventListener("beforeunload", ask);
		return () => removeEventListener("beforeunload", ask);
	}, [isChanged]);
	return (
		<form
			className="card settings"
			aria-label={title}
			onSubmit={(event) => {
				event.preventDefault();
				if (isChanged && isReady && isOnline) onSave();
			}}
		>
			<SettingsBody title={title} note={note}>
				{children}
				{error === undefined || error === null ? null : <Problem error={error} />}
			</SettingsBody>
			{isChanged ? (
				<footer>
					<span className="grow" role="status">
						Unsaved: {changes.join(", ")}.{keeps === undefined ? "" : ` ${keeps}`}
					</span>
					<Button variant="subtle" disabled={false} onClick={onDiscard}>
						Discard
					</Button>
					<Button type="submit" loading={isPending} disabled={!isReady || !isOnline}>
						{action}
					</Button>
				</footer>
			) : null}
		</form>
	);
}

/** A card of the same form without fields: facts for readers, or acts with their own buttons. */
export function SettingsFacts({
	title,
	note,
	children,
}: {
	readonly title: string;
	readonly note: ReactNode;
	readonly children: ReactNode;
}) {
	return (
		<section className="card settings" aria-label={title}>
			<SettingsBody title={title} note={note}>
				{children}
			</SettingsBody>
		</section>
	);
}

function SettingsBody({
	title,
	note,
	children,
}: {
	readonly title: string;
	readonly note: ReactNode;
	readonly children: ReactNode;
}) {
	return (
		<div className="settings-body">
			<div className="settings-about">
				<h2>{title}</h2>
				<div className="said">{note}</div>
			</div>
			<div className="settings-fields">{children}</div>
		</div>
	);
}

/** One act of a card, with its sentence at the left and its button at the right. */
export function SettingsAct({ text, children }: { readonly text: ReactNode; readonly children: ReactNode }) {
	return (
		<div className="settings-act">
			<div className="grow">{text}</div>
			{children}
		</div>
	);
}
