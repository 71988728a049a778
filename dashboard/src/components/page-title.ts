/**
 * The title of the open screen, for the last breadcrumb and the tab of the browser. The screen sets
 * it; the frame around the screen shows it.
 */
import { useSyncExternalStore } from "react";

let title = "";
const listeners = new Set<() => void>();

export function setPageTitle(next: string): void {
	if (next === title) return;
	title = next;
	for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
	listeners.add(listener);
	return () => listeners.delete(listener);
}

export function usePageTitle(): string {
	return useSyncExternalStore(subscribe, () => title);
}
