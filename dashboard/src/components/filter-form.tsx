/** The filter form above a list. Filters apply on submit, not on each key. A filtered list has a button that shows everything again. */
import { Button } from "@mantine/core";
import type { ChangeEvent, ReactNode } from "react";
import { type Filters, isFiltered, useFilterForm } from "./filters";

interface Field {
	readonly value: string;
	readonly onChange: (event: ChangeEvent<HTMLInputElement | HTMLSelectElement>) => void;
}

export function FilterForm<Name extends string>({
	filters,
	onFilter,
	children,
}: {
	readonly filters: Filters<Name>;
	readonly onFilter: (filters: Partial<Filters<Name>>) => void;
	/** Renders the inputs; `field` gives the props of the filter with that name. */
	readonly children: (field: (name: Name) => Field) => ReactNode;
}) {
	const [form, setForm] = useFilterForm(filters);
	return (
		<form
			onSubmit={(event) => {
				event.preventDefault();
				onFilter(form);
			}}
		>
			<div className="filters">
				{children((name) => ({
					value: form[name],
					onChange: (event) => setForm({ ...form, [name]: event.currentTarget.value }),
				}))}
				<Button type="submit" variant="default">
					Apply filters
				</Button>
				{isFiltered(filters) ? (
					<Button variant="subtle" onClick={() => onFilter({})}>
						Clear filters
					</Button>
				) : null}
			</div>
		</form>
	);
}
