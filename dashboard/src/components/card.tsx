/** Cards, notes, rows of figures and key-value lists: the containers of a screen. */
import type { ReactNode } from "react";
import { IconAlertTriangle, IconCircleCheck, type IconDrawing, IconInfoCircle } from "../icons";
import type { Tone } from "./badge";
import { Icon } from "./icon";

export function Card({
	title,
	actions,
	isPadded = true,
	children,
}: {
	readonly title?: ReactNode;
	readonly actions?: ReactNode;
	/** Without padding for tables and lists that reach the edge. */
	readonly isPadded?: boolean;
	readonly children: ReactNode;
}) {
	return (
		<div className="card">
			{title === undefined ? null : (
				<header>
					<h3>{title}</h3>
					{actions}
				</header>
			)}
			{isPadded ? <div className="pad">{children}</div> : children}
		</div>
	);
}

const NOTE_ICONS: Readonly<Record<Tone, IconDrawing>> = {
	ok: IconCircleCheck,
	warn: IconAlertTriangle,
	bad: IconAlertTriangle,
	info: IconInfoCircle,
	preview: IconInfoCircle,
};

/**
 * A message in the page. Failures and warnings that appear after an action need `isAlert`, so that
 * screen readers announce them.
 */
export function Note({
	tone,
	title,
	isAlert = false,
	children,
}: {
	readonly tone?: Tone;
	readonly title?: string;
	readonly isAlert?: boolean;
	readonly children?: ReactNode;
}) {
	return (
		<div className={tone === undefined ? "note" : `note ${tone}`} {...(isAlert ? { role: "alert" } : {})}>
			<Icon of={tone === undefined ? IconInfoCircle : NOTE_ICONS[tone]} />
			<div className="stack grow">
				{title === undefined ? null : <strong className="strong">{title}</strong>}
				{children}
			</div>
		</div>
	);
}

export interface Figure {
	readonly label: string;
	readonly value: ReactNode;
	/** The population or a comparison: no figure stands without one. */
	readonly note?: ReactNode;
	readonly isBad?: boolean;
}

export function Figures({ figures }: { readonly figures: readonly Figure[] }) {
	return (
		<dl className="stats">
			{figures.map(({ label, value, note, isBad = false }) => (
				<div className="stat" key={label}>
					<dt className="l">{label}</dt>
					<dd className="v">{value}</dd>
					{note === undefined ? null : <dd className={isBad ? "s t-bad" : "s"}>{note}</dd>}
				</div>
			))}
		</dl>
	);
}

interface Properties {
	readonly items: readonly (readonly [name: string, value: ReactNode])[];
}

/** The properties of one thing, which screen readers announce as names and values. */
export function Properties({ items, isWide = false }: Properties & { readonly isWide?: boolean }) {
	return (
		<dl className={isWide ? "dl is-wide" : "dl"}>
			{items.map(([name, value]) => (
				<div key={name}>
					<dt>{name}</dt>
					<dd>{value}</dd>
				</div>
			))}
		</dl>
	);
}

/** Properties in a card of their own, in two columns where they fit. */
export function KeyValues({ items }: Properties) {
	return (
		<div className="card pad">
			<Properties items={items} isWide />
		</div>
	);
}
