/**
 * Errors of work in several databases. One that fails stops no other. They are kept until
 * the end, and the first one is thrown then, so that the job fails although the rest of its work
 * was done.
 */

export class Failures {
	/** By the binding of the database. */
	readonly #errors = new Map<string, unknown>();

	/** Bindings of the databases that failed. */
	get bindings(): string[] {
		return [...this.#errors.keys()];
	}

	has(binding: string): boolean {
		return this.#errors.has(binding);
	}

	/**
	 * @param onError is called before the work of other databases goes on
	 * @returns undefined if the work failed
	 */
	async during<Value>(
		binding: string,
		work: () => Promise<Value>,
		onError?: (error: unknown) => unknown,
	): Promise<Value | undefined> {
		try {
			return await work();
		} catch (error) {
			if (!this.has(binding)) this.#errors.set(binding, error);
			await onError?.(error);
			return undefined;
		}
	}

	/** @throws the first error */
	throwFirst(): void {
		for (const error of this.#errors.values()) throw error;
	}
}
