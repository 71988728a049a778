/**
 * Whether the browser has a network. Without one, pages show what they loaded, and nothing can be
 * changed.
 */
import { onlineManager } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";

const subscribe = (onChange: () => void) => onlineManager.subscribe(onChange);

export function useIsOnline(): boolean {
	return useSyncExternalStore(subscribe, () => onlineManager.isOnline());
}
