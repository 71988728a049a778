/**
 * The line of filters above a list: a field that matches parts, chips with one choice, and selects.
 * Each acts at once and is kept in the address; rarer filters are folded. Saved views stand below.
 */
import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useEffect, useId, useState } from "react";
import { IconChevronRight } from "../icons";
import { type Filters, isFiltered, useFilterForm } from "./filters";
import { Icon } from "./icon";
import "./rows.css";
import { SavedViews } from "./saved-views";
import { countText } from "./size";

interface Choice {
	readonly value: string;
	readonly label: string;
	/** Rows that it leaves. */
	readonly count?: number;
}

interface TextFilter<Name> {
	readonly name: Name;
	readonly label: string;
	readonly type?: "text" | "date";
}

interface ChoiceFilter<Name> {
	readonly name: Name;
	/** For screen readers: the first choice stands for it on the screen. */
	readonly label: string;
	/** The first has an empty value and stands for all. */
	readonly choices: readonly Choice[];
}

/** Waits while somebody types. */
const TYPING_MS = 250;

export function FilterBar<Name extends string>({
	list,
	filters,
	onFilter,
	search,
	chips,
	menus = [],
	more = [],
}: {
	/** Names the list in this browser, for its saved views; undefined: it has none. */
	readonly list?: string;
	readonly filters: Filters<Name>;
	readonly onFilter: (filters: Partial<Filters<Name>>, options?: { readonly replace?: boolean }) => void;
	readonly search?: TextFilter<Name>;
	readonly chips?: ChoiceFilter<Name>;
	readonly menus?: readonly ChoiceFilter<Name>[];
	/** Folded until one of them is set. */
	readonly more?: readonly TextFilter<Name>[];
}) {
	const [form, setForm] = useFilterForm(filters);
	const [isUnfolded, setUnfolded] = useState(() => more.some(({ name }) => filters[name] !== ""));
	const folded = useId();
	const isTyped = JSON.stringify(form) !== JSON.stringify(filters);
	useEffect(() => {
		if (!isTyped) return;
		const timer = setTimeout(() => onFilter(form, { replace: true }), TYPING_MS);
		return () => clearTimeout(timer);
	}, [form, isTyped, onFilter]);
	const choose = (name: Name, value: string) => onFilter({ ...form, [name]: value });
	const type = (name: Name, value: string) => setForm({ ...form, [name]: value });
	return (
		<div className="stack">
			<search className="filter-bar" aria-label="Filter">
				{search === undefined ? null : (
					<TextInput
						className="search"
						type="search"
						size="xs"
						data-filter
						aria-label={search.label}
						placeholder={search.label}
						value={form[search.name]}
						onChange={(event) => type(search.name, event.currentTarget.value)}
					/>
				)}
				{chips === undefined ? null : (
					<Chips {...chips} value={filters[chips.name]} onChoose={(value) => choose(chips.name, value)} />
				)}
				{menus.map(({ name, label, choices }) => (
					<NativeSelect
						key={name}
						className="menu"
						size="xs"
						aria-label={label}
						data={[...withOwn(choices, filters[name])]}
						value={filters[name]}
						onChange={(event) => choose(name, event.currentTarget.value)}
					/>
				))}
				{more.length === 0 ? null : (
					<button
						type="button"
						className="filter-chip"
						aria-expanded={isUnfolded}
						{...(isUnfolded ? { "aria-controls": folded } : {})}
						onClick={() => setUnfolded(!isUnfolded)}
					>
						More filters
						<Icon of={IconChevronRight} size="s" />
					</button>
				)}
				{isFiltered(filters) ? (
					<Button size="xs" variant="subtle" disabled={false} onClick={() => onFilter({})}>
						Clear filters
					</Button>
				) : null}
			</search>
			{isUnfolded ? (
				<div className="filters" id={folded}>
					{more.map(({ name, label, type: kind }) => (
						<TextInput
							key={name}
							size="xs"
							label={label}
							type={kind ?? "text"}
							value={form[name]}
							onChange={(event) => type(name, event.currentTarget.value)}
						/>
					))}
				</div>
			) : null}
			{list === undefined ? null : <SavedViews list={list} filters={filters} onFilter={onFilter} />}
		</div>
	);
}

/**
 * The choices with the numbers that the server counted, of which it leaves out what it would have
 * to read too much for. The choice of all has the empty value.
 */
export const withCounts = (
	choices: readonly Choice[],
	counts: Readonly<Record<string, number | null>>,
): readonly Choice[] =>
	choices.map((choice) => {
		const count = counts[choice.value === "" ? "all" : choice.value];
		return typeof count === "number" ? { ...choice, count } : choice;
	});

/** A value from elsewhere, such as a link, is a choice of its own. */
const withOwn = (choices: readonly Choice[], value: string): readonly Choice[] =>
	choices.some((choice) => choice.value === value) ? choices : [...choices, { value, label: value }];

/** Buttons for one choice. */
export function Chips({
	label,
	choices,
	value,
	onChoose,
}: Omit<ChoiceFilter<string>, "name"> & {
	readonly value: string;
	readonly onChoose: (value: string) => void;
}) {
	return (
		<fieldset className="chips" aria-label={label}>
			{withOwn(choices, value).map((choice) => (
				<button
					type="button"
					className="filter-chip"
					key={choice.value}
					aria-pressed={choice.value === value}
					onClick={() => onChoose(choice.value)}
				>
					<span className="cut">{choice.label}</span>
					{choice.count === undefined ? null : <span className="num">{countText(choice.count)}</span>}
				</button>
			))}
		</fieldset>
	);
}
