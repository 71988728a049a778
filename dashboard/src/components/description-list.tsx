/** The properties of one thing as a description list, which screen readers announce as names and values. */
import { Paper } from "@mantine/core";
import type { ReactNode } from "react";

export function DescriptionList({ items }: { readonly items: readonly (readonly [name: string, value: ReactNode])[] }) {
	return (
		<Paper withBorder p="md">
			<dl className="description-list">
				{items.map(([name, value]) => (
					<div key={name}>
						<dt>{name}</dt>
						<dd>{value}</dd>
					</div>
				))}
			</dl>
		</Paper>
	);
}
