/**
 * The switches of the mutants in the code under test. At most one mutant is on. Reached switches
 * are recorded, so that a mutant needs only the test files that reach it.
 */
import { type RawBuilder, sql } from "kysely";

let active = 0;
let reached = new Set<number>();

/**
 * Numbers count from 1; 0 is the unchanged code. Test files share this module, so the record begins
 * again with each.
 */
export function activate(mutant: number): void {
	active = mutant;
	reached = new Set();
}

export function reachedMutants(): readonly number[] {
	return [...reached];
}

export function on(mutant: number): boolean {
	reached.add(mutant);
	return active === mutant;
}

/** Whether the mutant is on; `code` records whether it is reached. */
export function isOn(mutant: number): boolean {
	return active === mutant;
}

/**
 * The value of a condition of the code. It reaches the mutant only when it differs from the value
 * that the mutant gives it.
 */
export function code<Value>(mutant: number, becomes: boolean, value: Value): Value {
	if (value !== becomes) reached.add(mutant);
	return value;
}

type Builder = Record<string, (...given: unknown[]) => unknown>;

/** A condition of a statement that is being built: not added when it is off. */
export function call(mutant: number, builder: Builder, method: string, ...given: unknown[]): unknown {
	return on(mutant) ? builder : builder[method]?.(...given);
}

/** A join on two columns: with every row when it is off. */
export function join(mutant: number, builder: Builder, method: string, ...given: unknown[]): unknown {
	return on(mutant) ? builder[method]?.(given[0], (rows: unknown) => rows) : builder[method]?.(...given);
}

/** A condition beside AND. */
export function condition(mutant: number, expression: unknown): unknown {
	return on(mutant) ? constant(1) : expression;
}

/** A condition beside OR. */
export function alternative(mutant: number, expression: unknown): unknown {
	return on(mutant) ? constant(0) : expression;
}

function constant(value: 0 | 1): RawBuilder<unknown> {
	return sql.raw(String(value));
}
