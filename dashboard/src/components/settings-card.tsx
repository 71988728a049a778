/**
 * Settings of one subject in a card: heading, one sentence and the stored values in words at the
 * left, fields at the right. The footer appears with the first change, names what changes, and has
 * the only button that saves.
 */
import { Button } from "@mantine/core";
import type { ReactNode } from "react";
import { Problem } from "./answer";
import { useIsOnline } from "./online";
import { useUnsaved } from "./unsaved";
import "./settings-card.css";

export function SettingsCard({
	title,
	note,
	present,
	mayChange = true,
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
	/** The stored values in words, which readers see in place of the fields. */
	readonly present: ReactNode;
	/** Whether the user may change them; others see what is stored. */
	readonly mayChange?: boolean;
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
	useUnsaved(() => isChanged && !isPending);
	if (!mayChange) {
		return (
			<SettingsFacts title={title} note={note}>
				<div>{present}</div>
			</SettingsFacts>
		);
	}
	return (
		<form
			className="card settings"
			aria-label={title}
			onSubmit={(event) => {
				event.preventDefault();
				// The form of a dialog that the card opens is below the card for React.
				if (event.target !== event.currentTarget) return;
				if (isChanged && isReady && isOnline) onSave();
			}}
		>
			<SettingsBody title={title} note={note} present={present}>
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
	present,
	children,
}: {
	readonly title: string;
	readonly note: ReactNode;
	readonly present?: ReactNode;
	readonly children: ReactNode;
}) {
	return (
		<div className="settings-body">
			<div className="settings-about">
				<h2>{title}</h2>
				<div className="said">{note}</div>
				{present === undefined ? null : <div className="settings-present">{present}</div>}
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
