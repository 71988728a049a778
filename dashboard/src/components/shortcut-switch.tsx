/**
 * The switch for keyboard shortcuts of one key, in the account and in their help. The browser
 * remembers it.
 */
import { Switch } from "@mantine/core";
import { useState } from "react";

const OFF = "capstan.shortcuts";

export function areShortcutsOn(): boolean {
	try {
		return localStorage.getItem(OFF) !== "off";
	} catch {
		return true;
	}
}

function storeShortcutsOn(isOn: boolean): void {
	try {
		if (isOn) localStorage.removeItem(OFF);
		else localStorage.setItem(OFF, "off");
	} catch {
		// Without storage they stay on.
	}
}

export function ShortcutSwitch() {
	const [isOn, setOn] = useState(areShortcutsOn);
	return (
		<Switch
			label="Single-key shortcuts"
			description="Turn them off if you use speech input. Search stays at its key. This browser remembers it."
			checked={isOn}
			onChange={(event) => {
				setOn(event.currentTarget.checked);
				storeShortcutsOn(event.currentTarget.checked);
			}}
		/>
	);
}
