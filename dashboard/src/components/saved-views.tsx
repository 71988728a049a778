/**
 * Views of a list: filters that a person named. This browser keeps them for each list, because they
 * are a habit of a person and no data of the organization.
 */
import { Button, TextInput } from "@mantine/core";
import { useState } from "react";
import { IconBookmark, IconX } from "../icons";
import { type Filters, givenFilters, isFiltered } from "./filters";
import { Icon } from "./icon";

interface View {
	readonly name: string;
	readonly filters: Readonly<Record<string, string>>;
}

const MOST_VIEWS = 20;
const keyOf = (list: string) => `capstan.views.${list}`;

const isView = (value: unknown): value is View =>
	typeof value === "object" &&
	value !== null &&
	"name" in value &&
	typeof value.name === "string" &&
	"filters" in value &&
	typeof value.filters === "object" &&
	value.filters !== null;

function storedViews(list: string): readonly View[] {
	try {
		const stored: unknown = JSON.parse(localStorage.getItem(keyOf(list)) ?? "[]");
		return Array.isArray(stored) ? stored.filter(isView) : [];
	} catch {
		return [];
	}
}

function storeViews(list: string, views: readonly View[]): void {
	try {
		localStorage.setItem(keyOf(list), JSON.stringify(views));
	} catch {
		// Without storage a view lasts until the page is left.
	}
}

const textOf = (filters: Filters<string>) => JSON.stringify(Object.entries(givenFilters(filters)).sort());

export function SavedViews<Name extends string>({
	list,
	filters,
	onFilter,
}: {
	/** Names the list in this browser, e.g. `devices com.example.app`. */
	readonly list: string;
	readonly filters: Filters<Name>;
	readonly onFilter: (filters: Partial<Filters<Name>>) => void;
}) {
	const [views, setViews] = useState(() => storedViews(list));
	const [name, setName] = useState<string | undefined>();
	const keep = (next: readonly View[]) => {
		setViews(next);
		storeViews(list, next);
	};
	const isSaved = views.some((view) => textOf(view.filters) === textOf(filters));
	if (views.length === 0 && !isFiltered(filters)) return null;
	return (
		<div className="row wrap">
			{views.map((view) => (
				<span className="chip view" key={view.name}>
					<button
						type="button"
						aria-pressed={textOf(view.filters) === textOf(filters)}
						onClick={() => onFilter(view.filters as Partial<Filters<Name>>)}
					>
						{view.name}
					</button>
					<button
						type="button"
						aria-label={`Forget the view ${view.name}`}
						onClick={() => keep(views.filter((other) => other !== view))}
					>
						<Icon of={IconX} />
					</button>
				</span>
			))}
			{!isFiltered(filters) || isSaved || views.length >= MOST_VIEWS ? null : name === undefined ? (
				<Button
					size="xs"
					variant="subtle"
					disabled={false}
					leftSection={<Icon of={IconBookmark} size="s" />}
					onClick={() => setName("")}
				>
					Save this view
				</Button>
			) : (
				<form
					className="row"
					onSubmit={(event) => {
						event.preventDefault();
						const chosen = name.trim();
						if (chosen === "") return;
						keep([...views.filter((view) => view.name !== chosen), { name: chosen, filters: givenFilters(filters) }]);
						setName(undefined);
					}}
				>
					<TextInput
						size="xs"
						aria-label="Name of the view"
						placeholder="Name of the view"
						maxLength={40}
						autoFocus
						value={name}
						onChange={(event) => setName(event.currentTarget.value)}
						onKeyDown={(event) => {
							if (event.key === "Escape") setName(undefined);
						}}
					/>
					<Button type="submit" size="xs" variant="default" disabled={false}>
						Save
					</Button>
				</form>
			)}
		</div>
	);
}
