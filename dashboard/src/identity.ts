/**
 * The request to confirm who the reader is, for actions that need a recent sign-in. It is asked in a dialog above everything else, so the
 * form that caused it keeps its input and its request is sent again afterwards.
 */
import { useSyncExternalStore } from "react";

export interface IdentityRequest {
	/** Only a passkey will do. */
	readonly byPasskey: boolean;
	readonly confirmed: Promise<boolean>;
	/** False: the reader closed the dialog. */
	readonly settle: (isConfirmed: boolean) => void;
}

let current: IdentityRequest | undefined;
const listeners = new Set<() => void>();

function change(request: IdentityRequest | undefined): void {
	current = request;
	for (const listener of listeners) listener();
}

/** Resolves with whether the reader confirmed; requests that fail together share one dialog. */
export function confirmIdentity(byPasskey = false): Promise<boolean> {
	if (current !== undefined) return current.confirmed;
	let resolve: (isConfirmed: boolean) => void = () => undefined;
	const confirmed = new Promise<boolean>((done) => {
		resolve = done;
	});
	change({
		byPasskey,
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
