/**
 * In place of the screen of an object that does not exist, or that the reader may not see: which
 * one, names like it, and the list that has the others. There is nothing to try again, and no
 * action for something that never was.
 */
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { CapstanError } from "../api";
import { Answer } from "./answer";
import { ButtonLink, TextLink } from "./link";
import { type Named, nearest } from "./nearest";
import { Empty, Screen } from "./screen";

interface MissingProps {
	/** One word: `app`. */
	readonly kind: string;
	/** As in the address. */
	readonly name: string;
	/** Why it may be missing, as a sentence. */
	readonly because?: string;
	/** The others, of which similar ones are named. */
	readonly others?: readonly Named[] | undefined;
	readonly list: { readonly to: string; readonly label: string };
}

const MAY_NOT = "It does not exist, or you may not see it.";

export function Missing({ kind, name, because = MAY_NOT, others = [], list }: MissingProps) {
	const near = nearest(name, others);
	return (
		<Screen title={`No ${kind} ${name}`}>
			<Empty
				title={`There is no ${kind} at this address`}
				action={
					<ButtonLink variant="default" to={list.to}>
						{list.label}
					</ButtonLink>
				}
			>
				{because}
				{near.length === 0 ? null : (
					<>
						{" "}
						Did you mean{" "}
						{near.map((other, index) => (
							<span key={other.to}>
								{index === 0 ? "" : index === near.length - 1 ? " or " : ", "}
								<TextLink to={other.to}>{other.name}</TextLink>
							</span>
						))}
						?
					</>
				)}
			</Empty>
		</Screen>
	);
}

/** The address is all that such a request has, so a refused one names nothing that exists. */
export const isMissing = (error: unknown) => error instanceof CapstanError && [400, 404].includes(error.status);

/** The object of a screen: its data, or that it does not exist, also once it was deleted. */
export function Found<Data>({
	query,
	children,
	...missing
}: MissingProps & { readonly query: UseQueryResult<Data, Error>; readonly children: (data: Data) => ReactNode }) {
	if (isMissing(query.error)) return <Missing {...missing} />;
	return (
		<Answer query={query} what={`the ${missing.kind} ${missing.name}`}>
			{children}
		</Answer>
	);
}
