/**
 * Asks the user to confirm their identity: for an action that needs a recent sign-in, or because
 * the session ended. The dialog
 * opens above everything else, so the form below keeps its input and sends its request again
 * afterwards.
 */
import { useSyncExternalStore } from "react";

export interface IdentityRequest {
	/** Only a passkey is accepted. */
	readonly byPasskey: boolean;
	/** The session is over, so nothing of the page is answered until the user signs in again. */
	readonly hasEnded: boolean;
	readonly confirmed: Promise<boolean>;
	/** False: the user closed the dialog. */
	readonly settle: (isConfirmed: boolean) => void;
}

/** Browsers throw this error when the user closes the passkey dialog. */
export const isDismissed = (error: Error) => error.name === "NotAllowedError";

let current: IdentityRequest | undefined;
const listeners = new Set<() => void>();

function change(request: IdentityRequest | undefined): void {
	current = request;
	for (const listener of listeners) listener();
}

/** Resolves with whether the user confirmed. Requests that fail together share one dialog. */
export function confirmIdentity(byPasskey = false, hasEnded = false): Promise<boolean> {
	if (current !== undefined) return current.confirmed;
	let resolve: (isConfirmed: boolean) => void = () => undefined;
	const confirmed = new Promise<boolean>((done) => {
		resolve = done;
	});
	change({
		byPasskey,
		hasEnded,
		confirmed,
		settle(isConfirmed) {
			change(undefined);
			resolve(isConfirmed);
		},
	});
	return confirmed;
}

export function useIdentityRequest(): IdentityRequest | undefined {
	return useSyncExternalStore(
		(listener) => {
			listeners.add(listener);
			return () => void listeners.delete(listener);
		},
		() => current,
	);
}
