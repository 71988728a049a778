/**
 * The command palette (Ctrl K): one field over everything that has a name. Local results appear at
 * once, devices after a pause, because the server searches them. The field keeps the focus; the
 * arrow keys choose, Enter opens, with Ctrl in a new tab.
 */
import { useDebouncedValue } from "@mantine/hooks";
import { useIsFetching } from "@tanstack/react-query";
import { type KeyboardEvent, type MouseEvent, useEffect, useState } from "react";
import { useLocation } from "wouter";
import { Dialog } from "../components/dialog";
import { Icon } from "../components/icon";
import { IconSearch } from "../icons";
import type { Where } from "../shell/navigation";
import { SEARCH_KEY } from "../shell/shortcuts";
import { useEntries } from "./entries";
import { type Entry, type Group, marked, matching } from "./match";

const TYPING_MS = 120;
/** Shown before anything is typed. */
const FIRST_GROUPS = ["Apps", "Rollouts", "Go to", "Actions"];

const isExternal = (address: string) => address.startsWith("/docs");

export default function Palette({
	where,
	text,
	onText,
	isEntered,
	onEntered,
	onClose,
}: {
	readonly where: Where;
	readonly text: string;
	readonly onText: (text: string) => void;
	/** Enter was pressed when nothing was found yet: the first result opens once all is loaded. */
	readonly isEntered: boolean;
	readonly onEntered: (isEntered: boolean) => void;
	readonly onClose: () => void;
}) {
	const [chosen, setChosen] = useState(0);
	const [part] = useDebouncedValue(text.trim(), TYPING_MS);
	const [, navigate] = useLocation();
	const { entries, devices } = useEntries(where, part);
	const groups: Group[] =
		text.trim() === ""
			? matching(
					entries.filter(({ group }) => FIRST_GROUPS.includes(group)),
					"",
				)
			: [...matching(entries, text), ...(devices.length > 0 ? [{ title: "Devices", entries: devices }] : [])];
	const flat = groups.flatMap((group) => group.entries);
	const index = Math.min(chosen, flat.length - 1);
	const open = ({ to, run }: Entry, isNewTab: boolean) => {
		onClose();
		run?.();
		if (to === undefined) return;
		if (isNewTab) window.open(isExternal(to) ? to : `/dashboard${to}`, "_blank", "noopener");
		else if (isExternal(to)) location.assign(to);
		else navigate(to);
	};
	const onKeyDown = (event: KeyboardEvent) => {
		const entry = flat[index];
		const steps: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 };
		const step = steps[event.key];
		if (step !== undefined && flat.length > 0) {
			event.preventDefault();
			setChosen((index + step + flat.length) % flat.length);
		} else if (event.key === "Enter") {
			event.preventDefault();
			if (entry === undefined) onEntered(true);
			else open(entry, event.ctrlKey || event.metaKey);
		}
	};
	const isLoading = useIsFetching() > 0 || part !== text.trim();
	const first = isEntered && !isLoading ? flat[0] : undefined;
	useEffect(() => {
		if (first !== undefined) open(first, false);
	});
	let count = -1;
	return (
		<Dialog
			onClose={onClose}
			isDirty={false}
			withCloseButton={false}
			size={640}
			className="pal"
			title="Search"
			yOffset={96}
		>
			<div className="pal-input">
				<Icon of={IconSearch} />
				<input
					data-autofocus
					role="combobox"
					aria-label="Search"
					aria-expanded="true"
					aria-controls="palette-list"
					aria-autocomplete="list"
					{...(flat.length === 0 ? {} : { "aria-activedescendant": `palette-${index}` })}
					autoComplete="off"
					spellCheck={false}
					placeholder="Apps, bundles, devices, keys, actions…"
					value={text}
					onChange={(event) => {
						onText(event.currentTarget.value);
						onEntered(false);
						setChosen(0);
					}}
					onKeyDown={onKeyDown}
				/>
				<span className="kbd" aria-hidden="true">
					Esc
				</span>
			</div>
			<div className="pal-list" id="palette-list" role="listbox" aria-label="Results">
				{groups.map(({ title, entries: found }) => (
					// biome-ignore lint/a11y/useSemanticElements: a group of options, not of fields
					<div key={title} role="group" aria-label={title}>
						<div className="pal-group" aria-hidden="true">
							{title}
						</div>
						{found.map((entry) => {
							count++;
							return (
								<Option
									key={`${entry.label} ${entry.to ?? ""}`}
									entry={entry}
									text={text}
									index={count}
									isChosen={count === index}
									onChoose={setChosen}
									onOpen={open}
								/>
							);
						})}
					</div>
				))}
				{flat.length === 0 ? (
					<div className="none">Nothing has this name. Parts of names and ids are enough.</div>
				) : null}
			</div>
			<div className="pal-foot wide" aria-hidden="true">
				<span>
					<span className="kbd">↑</span>
					<span className="kbd">↓</span> choose
				</span>
				<span>
					<span className="kbd">↵</span> open
				</span>
				<span>
					<span className="kbd">{SEARCH_KEY.replace("K", "↵")}</span> new tab
				</span>
				<span className="right">
					<span className="kbd">?</span> all shortcuts
				</span>
			</div>
		</Dialog>
	);
}

function Option({
	entry,
	text,
	index,
	isChosen,
	onChoose,
	onOpen,
}: {
	readonly entry: Entry;
	readonly text: string;
	readonly index: number;
	readonly isChosen: boolean;
	readonly onChoose: (index: number) => void;
	readonly onOpen: (entry: Entry, isNewTab: boolean) => void;
}) {
	const [before, match, after] = marked(entry.label, text);
	return (
		// biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the focus and its keys
		<div
			id={`palette-${index}`}
			role="option"
			tabIndex={-1}
			aria-selected={isChosen}
			ref={(option) => {
				if (isChosen) option?.scrollIntoView({ block: "nearest" });
			}}
			onMouseMove={() => {
				if (!isChosen) onChoose(index);
			}}
			onClick={(event: MouseEvent) => onOpen(entry, event.ctrlKey || event.metaKey)}
		>
			<Icon of={entry.icon} />
			<span className="cut">
				{before}
				{match === "" ? null : <mark>{match}</mark>}
				{after}
			</span>
			{entry.note === undefined || entry.note === "" ? null : <span className="muted cut">{entry.note}</span>}
			{entry.keys === undefined ? null : (
				<span className="row right wide" aria-hidden="true">
					{entry.keys.map((key) => (
						<span className="kbd" key={key}>
							{key}
						</span>
					))}
				</span>
			)}
		</div>
	);
}
