/**
 * A timeline: who did what to which thing, newest first. Each item is a sentence; note, details and
 * one action are optional.
 */
import type { ReactNode } from "react";
import type { IconDrawing } from "../icons";
import type { Tone } from "./badge";
import { Icon } from "./icon";

export function Timeline({ label, children }: { readonly label: string; readonly children: ReactNode }) {
	return (
		<ol className="line" aria-label={label}>
			{children}
		</ol>
	);
}

export function TimelineItem({
	picture,
	note,
	meta,
	action,
	children,
}: {
	/** An `Avatar` or a `Spot`. */
	readonly picture: ReactNode;
	/** A quoted reason or comment. */
	readonly note?: ReactNode;
	/** Time, commit and pull request, as `span` and `a`. */
	readonly meta?: ReactNode;
	readonly action?: ReactNode;
	/** The sentence. */
	readonly children: ReactNode;
}) {
	return (
		<li className="ev">
			{picture}
			<div className="stack">
				<div>{children}</div>
				{note === undefined || note === null ? null : <div className="said">{note}</div>}
				{meta === undefined ? null : <div className="meta">{meta}</div>}
			</div>
			{action === undefined || action === null ? null : <div className="act">{action}</div>}
		</li>
	);
}

/** A state as a round icon, for events without an actor. */
export function Spot({ icon, tone }: { readonly icon: IconDrawing; readonly tone?: Exclude<Tone, "preview"> }) {
	return (
		<span className={tone === undefined ? "spot" : `spot ${tone}`} aria-hidden="true">
			<Icon of={icon} />
		</span>
	);
}
