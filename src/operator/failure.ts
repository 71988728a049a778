/**
 * A problem that the operator can fix. Its message includes the remedy and is printed without a
 * stack trace.
 */
export class Failure extends Error {
	override readonly name = "Failure";
}
