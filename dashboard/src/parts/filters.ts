/**
 * What a list is filtered by stands in the address beside its page, so that Back, a reload and a link that is passed on show the same.
 */
import { useState } from "react";
import { useSearchParams } from "wouter";

export type Filters<Name extends string> = Readonly<Record<Name, string>>;

/** Without a value there is no such filter. Another filter begins the list anew. */
export function useFilters<Name extends string>(
	names: readonly Name[],
): [filters: Filters<Name>, setFilters: (filters: Partial<Filters<Name>>) => void] {
	const [address, setAddress] = useSearchParams();
	const filters = Object.fromEntries(names.map((name) => [name, address.get(name) ?? ""])) as Filters<Name>;
	const setFilters = (next: Partial<Filters<Name>>) =>
		setAddress((before) => {
			const after = new URLSearchParams(before);
			after.delete("page");
			for (const name of names) {
				const value = next[name] ?? "";
				if (value === "") after.delete(name);
				else after.set(name, value);
			}
			return after;
		});
	return [filters, setFilters];
}

/** Those that have a value, as the API takes them. */
export function givenFilters(filters: Filters<string>): Readonly<Record<string, string>> {
	return Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== ""));
}

export function isFiltered(filters: Filters<string>): boolean {
	return Object.keys(givenFilters(filters)).length > 0;
}

/** What is typed before it filters; it follows the address, e.g. after Back. */
export function useFilterForm<Name extends string>(
	filters: Filters<Name>,
): [form: Filters<Name>, setForm: (form: Filters<Name>) => void] {
	const [form, setForm] = useState(filters);
	const [followed, setFollowed] = useState(filters);
	if (JSON.stringify(followed) !== JSON.stringify(filters)) {
		setFollowed(filters);
		setForm(filters);
	}
	return [form, setForm];
}
