/**
 * The kinds of malice together. Each takes a request that its endpoint answers with success and
 * spoils one part of it; which part and how is drawn from the given chance alone. They know JSON,
 * HTTP and the schema of the operation, and no operation by name.
 */
import { BODY } from "./body-mutations";
import type { Operation } from "./document";
import type { Draft } from "./draft";
import { HTTP } from "./http-mutations";
import type { Malice } from "./mutation";
import type { Random } from "./random";

const MUTATIONS = [...BODY, ...HTTP];

/** One named step, so that a failure can be reported and repeated with fewer steps. */
export interface Step {
	readonly mutation: string;
	readonly chance: string;
}

/** The steps that a request of this number takes. */
export function stepsOf(random: Random, draft: Draft, operation: Operation, name: string): Step[] {
	const count = random.chance(0.72) ? 1 : random.chance(0.75) ? 2 : 3;
	const fitting = MUTATIONS.filter((mutation) => mutation.applies(draft, operation));
	return Array.from({ length: count }, (_, index) => ({
		mutation: random.weighted(fitting)?.name ?? "header",
		chance: `${name}/${index}`,
	}));
}

/** Spoils the draft; a step that no longer applies after an earlier one is left out. */
export function spoil(draft: Draft, steps: readonly Step[], malice: (chance: string) => Malice): void {
	for (const step of steps) {
		const mutation = MUTATIONS.find(({ name }) => name === step.mutation);
		const own = malice(step.chance);
		if (mutation?.applies(draft, own.operation)) mutation.apply(draft, own);
	}
}
