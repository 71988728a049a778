/** Names and values of one thing, as a list that screen readers know as such. */
import { Paper } from "@mantine/core";
import type { ReactNode } from "react";

export function Facts({ facts }: { readonly facts: readonly (readonly [name: string, value: ReactNode])[] }) {
	return (
		<Paper withBorder p="md">
			<dl className="facts">
				{facts.map(([name, value]) => (
					<div key={name}>
						<dt>{name}</dt>
						<dd>{value}</dd>
					</div>
				))}
			</dl>
		</Paper>
	);
}
