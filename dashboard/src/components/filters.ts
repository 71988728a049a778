/**
 * Filters of a list, kept in the URL beside its page, so that Back, a reload and a shared link show
 * the same list.
 */
import { useState } from "react";
import { useSearchParams } from "wouter";

export type Filters<Name extends string> = Readonly<Record<Name, string>>;

/** An empty value means no filter. Changing a filter returns to the first page. */
export function useFilters<Name extends string>(
	names: readonly Name[],
): [
	filters: Filters<Name>,
	setFilters: (filters: Partial<Filters<Name>>, options?: { readonly replace?: boolean }) => void,
] {
	const [address, setAddress] = useSearchParams();
	const filters = Object.fromEntries(names.map((name) => [name, address.get(name) ?? ""])) as Filters<Name>;
	const setFilters = (next: Partial<Filters<Name>>, options: { readonly replace?: boolean } = {}) =>
		setAddress((before) => {
			const after = new URLSearchParams(before);
			after.delete("page");
			for (const name of names) {
				const value = next[name] ?? "";
				if (value === "") after.delete(name);
				else after.set(name, value);
			}
			return after;
		}, options);
	return [filters, setFilters];
}

/** The filters that have a value, as query parameters of the API. */
export function givenFilters(filters: Filters<string>): Readonly<Record<string, string>> {
	return Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== ""));
}

export function isFiltered(filters: Filters<string>): boolean {
	return Object.keys(givenFilters(filters)).length > 0;
}

/** The form's values before they are submitted. They follow the URL, e.g. after Back. */
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
