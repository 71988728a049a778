/**
 * Statements whose text is always the same are built and compiled once in an isolate; a request puts its values in. Building one costs
 * more than SQLite takes to run it, and every request brings the same few: its caller's, its target's, and what it reads.
 */
import type { CompiledQuery } from "kysely";

/** Stands in the compiled statement where a value of the request goes. */
class Slot {
	constructor(readonly name: PropertyKey) {}

	[Symbol.toPrimitive](): never {
		throw new TypeError(`the value ${String(this.name)} is not known when the statement is built`);
	}
}

/**
 * @param build makes the statement; `value(name)` stands for the value of that name, and only ever as a parameter: what the statement
 * says must not depend on it
 */
export function prepared<Values extends object, Row>(
	build: (value: <Name extends keyof Values>(name: Name) => Values[Name]) => CompiledQuery<Row>,
): (values: Values) => CompiledQuery<Row> {
	let compiled: CompiledQuery<Row> | undefined;
	return (values) => {
		compiled ??= build(<Name extends keyof Values>(name: Name) => new Slot(name) as Values[Name]);
		const parameters = compiled.parameters.map((parameter) =>
			parameter instanceof Slot ? values[parameter.name as keyof Values] : parameter,
		);
		return { ...compiled, parameters };
	};
}
