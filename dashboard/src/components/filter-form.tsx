/**
 * The filter form above a list. Filters apply on submit, not on each key; the applied ones stand below it as chips that remove them, beside the
 * views that the person saved.
 */
import { Button } from "@mantine/core";
import type { ChangeEvent, ReactNode } from "react";
import { IconX } from "../icons";
import { type Filters, givenFilters, isFiltered, useFilterForm } from "./filters";
import { Icon } from "./icon";
import { SavedViews } from "./saved-views";

interface Field {
	readonly value: string;
	readonly onChange: (event: ChangeEvent<HTMLInputElement | HTMLSelectElement>) => void;
}

export function FilterForm<Name extends string>({
	list,
	filters,
	labels,
	textOf = (_, value) => value,
	onFilter,
	children,
}: {
	/** Names the list in this browser, for its saved views. */
	readonly list: string;
	readonly filters: Filters<Name>;
	/** Labels of the inputs. */
	readonly labels: Readonly<Record<Name, string>>;
	/** A value in the words of its choice. */
	readonly textOf?: (name: Name, value: string) => string;
	readonly onFilter: (filters: Partial<Filters<Name>>) => void;
	/** Renders the inputs; `field` gives the props of the filter with that name. */
	readonly children: (field: (name: Name) => Field & { readonly label: string }) => ReactNode;
}) {
	const [form, setForm] = useFilterForm(filters);
	const applied = Object.keys(givenFilters(filters)) as Name[];
	return (
		<div className="stack">
			<form
				onSubmit={(event) => {
					event.preventDefault();
					onFilter(form);
				}}
			>
				<div className="filters">
					{children((name) => ({
						label: labels[name],
						value: form[name],
						onChange: (event) => setForm({ ...form, [name]: event.currentTarget.value }),
					}))}
					<Button type="submit" variant="default">
						Apply filters
					</Button>
				</div>
			</form>
			{applied.length === 0 ? null : (
				<div className="row wrap">
					{applied.map((name) => (
						<button
							type="button"
							className="chip filter"
							key={name}
							onClick={() => onFilter({ ...filters, [name]: "" })}
						>
							<span className="sr">Remove the filter </span>
							<span className="cut">
								{labels[name]}: {textOf(name, filters[name])}
							</span>
							<Icon of={IconX} />
						</button>
					))}
					{isFiltered(filters) ? (
						<Button size="xs" variant="subtle" disabled={false} onClick={() => onFilter({})}>
							Clear filters
						</Button>
					) : null}
				</div>
			)}
			<SavedViews list={list} filters={filters} onFilter={onFilter} />
		</div>
	);
}
