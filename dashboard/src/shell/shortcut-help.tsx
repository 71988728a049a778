/** The list of keyboard shortcuts, opened with `?`. */
import { Dialog } from "../components/dialog";
import { ShortcutSwitch } from "../components/shortcut-switch";
import { SHORTCUTS } from "./shortcuts";

export default function ShortcutHelp({ onClose }: { readonly onClose: () => void }) {
	return (
		<Dialog onClose={onClose} isDirty={false} title="Keyboard shortcuts" size="lg">
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
