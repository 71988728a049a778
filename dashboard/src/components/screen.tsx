/**
 * The frame of a screen, its sections and its empty state. The heading is also the title of the
 * tab, and takes the focus after a navigation, so that screen readers announce the new screen.
 */
import { type ReactNode, useEffect, useLayoutEffect, useRef } from "react";
import type { IconDrawing } from "../icons";
import { Icon } from "./icon";
import { useIsOnline } from "./online";
import { setPageTitle } from "./page-title";

let isFirstScreen = true;

export function Screen({
	title,
	picture,
	note,
	actions,
	children,
}: {
	readonly title: string;
	/** The tile of an app or the avatar of a person. */
	readonly picture?: ReactNode;
	readonly note?: ReactNode;
	/** At most one of them is the primary button. */
	readonly actions?: ReactNode;
	readonly children: ReactNode;
}) {
	const isOnline = useIsOnline();
	const heading = useRef<HTMLHeadingElement>(null);
	useEffect(() => {
		document.title = `${title} · Capstan`;
		setPageTitle(title);
	}, [title]);
	// Before the effects of its parts, which may focus a field that the address names (useDo).
	useLayoutEffect(() => {
		if (isFirstScreen) isFirstScreen = false;
		else heading.current?.focus({ preventScroll: true });
	}, []);
	return (
		<div className="page">
			<div className="head">
				{picture}
				<div className="stack grow">
					<h1 ref={heading} tabIndex={-1}>
						{title}
					</h1>
					{note === undefined ? null : <div className="said">{note}</div>}
				</div>
				{actions === undefined ? null : (
					<fieldset className="acts" disabled={!isOnline}>
						{actions}
					</fieldset>
				)}
			</div>
			{children}
		</div>
	);
}

/** An empty state: what this is in one sentence, and one action. */
export function Empty({
	title,
	icon,
	action,
	children,
}: {
	readonly title: string;
	readonly icon?: IconDrawing;
	readonly action?: ReactNode;
	readonly children?: ReactNode;
}) {
	return (
		<div className="card empty">
			{icon === undefined ? null : <Icon of={icon} size="l" />}
			<strong className="strong">{title}</strong>
			{children === undefined ? null : <div className="said">{children}</div>}
			{action === undefined ? null : <div className="row">{action}</div>}
		</div>
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
		<section className="sec">
			<div className="row wrap">
				<h2>{title}</h2>
				{actions}
			</div>
			{children}
		</section>
	);
}
