/** The list of keyboard shortcuts, opened with `?`. */

import { Switch } from "@mantine/core";
import { useState } from "react";
import { Dialog } from "../components/dialog";
import { areShortcutsOn, SHORTCUTS, storeShortcutsOn } from "./shortcuts";

export default function ShortcutHelp({ onClose }: { readonly onClose: () => void }) {
	return (
		<Dialog onClose={onClose} title="Keyboard shortcuts" size="lg">
			<div className="shortcuts">
				{SHORTCUTS.map(({ title, shortcuts }) => (
					<section key={title}>
						<h3>{title}</h3>
						<dl>
							{shortcuts.map(({ keys, text }) => (
								<div key={text}>
									<dt>{text}</dt>
									<dd>
										{keys.map((key) => (
											<kbd className="kbd" key={key}>
												{key}
											</kbd>
										))}
									</dd>
								</div>
							))}
						</dl>
					</section>
				))}
			</div>
			<ShortcutSwitch />
		</Dialog>
	);
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
