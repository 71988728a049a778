/**
 * A failure that the person at the terminal can do something about: one sentence with the remedy, printed without a stack.
 */
export class Failure extends Error {
	override readonly name = "Failure";
}
