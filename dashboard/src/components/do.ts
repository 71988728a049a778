/**
 * Actions by address: `?do=new` on a screen opens the dialog of that action, once. The palette and
 * other screens link to actions in this way, so nothing is changed without its dialog.
 */
import { useEffect } from "react";
import { useSearchParams } from "wouter";

/** @param open opens the dialog; only called if the user may act (`isAllowed`) */
export function useDo(action: string, open: () => void, isAllowed = true): void {
	const [address, setAddress] = useSearchParams();
	const isAsked = address.get("do") === action && isAllowed;
	useEffect(() => {
		if (!isAsked) return;
		open();
		setAddress(
			(before) => {
				const after = new URLSearchParams(before);
				after.delete("do");
				return after;
			},
			{ replace: true },
		);
	}, [isAsked, open, setAddress]);
}
