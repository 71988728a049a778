/**
 * The form above a list that can be filtered. What is typed filters when it is sent, not at each key; there is a way back to everything
 * whenever the list is filtered.
 */
import { Button, Group } from "@mantine/core";
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
	/** The inputs; each takes what `field` gives for the filter of its name. */
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
			<Group align="flex-end" gap="sm">
				{children((name) => ({
					value: form[name],
					onChange: (event) => setForm({ ...form, [name]: event.currentTarget.value }),
				}))}
				<Button type="submit" variant="default">
					Filter
				</Button>
				{isFiltered(filters) ? (
					<Button variant="subtle" onClick={() => onFilter({})}>
						Show all
					</Button>
				) : null}
			</Group>
		</form>
	);
}
