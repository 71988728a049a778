/**
 * Statements of constant text are built and compiled once per isolate, and each request binds its
 * values. Building one costs more than SQLite takes to run it, and every request needs the same
 * few.
 */
import type { CompiledQuery } from "kysely";

/** A placeholder in the compiled statement for a value of the request. */
class Slot {
	constructor(readonly name: PropertyKey) {}

	[Symbol.toPrimitive](): never {
		throw new TypeError(`the text of a prepared statement must not depend on ${String(this.name)}`);
	}
}

/**
 * @param build creates the statement; `value(name)` is the parameter of that name, and nothing else
 * may depend on it
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
