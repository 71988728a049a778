/** The steps of a checklist that ticks itself off. */
import { Button } from "@mantine/core";
import { type DragEvent, type ReactNode, useState } from "react";
import { IconCheck } from "../icons";
import { Icon } from "./icon";
import "./steps.css";

export function Step({
	number,
	title,
	state,
	action,
	onDrop,
	children,
}: {
	readonly number: number;
	readonly title: string;
	/** `now` is the next step. */
	readonly state: "done" | "now" | "waiting";
	readonly action?: ReactNode;
	readonly onDrop?: (event: DragEvent) => void;
	readonly children?: ReactNode;
}) {
	const target = onDrop === undefined ? {} : { onDrop, onDragOver: (event: DragEvent) => event.preventDefault() };
	return (
		<li className={`step ${state}`} {...target}>
			<span className="step-number">
				{state === "done" ? <Icon of={IconCheck} size="s" /> : number}
				{state === "done" ? <span className="sr">Done</span> : null}
			</span>
			<div className="stack">
				<h3>{title}</h3>
				{children}
			</div>
			{action}
		</li>
	);
}

/** A step whose instructions are open while it is next, and can be opened and closed at any time. */
export function FoldedStep({
	number,
	title,
	state,
	line,
	children,
}: {
	readonly number: number;
	readonly title: string;
	readonly state: "done" | "now" | "waiting";
	/** One line, which is always shown: what was seen, or what the step is for. */
	readonly line: ReactNode;
	readonly children: ReactNode;
}) {
	const [chosen, setChosen] = useState<boolean | undefined>();
	const isOpen = chosen ?? state === "now";
	const verb = isOpen ? "Hide" : "Show";
	return (
		<Step
			number={number}
			title={title}
			state={state}
			action={
				<Button
					size="xs"
					variant="subtle"
					disabled={false}
					aria-expanded={isOpen}
					aria-label={`${verb}: ${title}`}
					onClick={() => setChosen(!isOpen)}
				>
					{verb}
				</Button>
			}
		>
			<div className="said">{line}</div>
			{isOpen ? <div className="stack step-body">{children}</div> : null}
		</Step>
	);
}
