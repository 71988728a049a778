/**
 * A modal dialog, mounted only while it is open. Its first field has the focus, and Escape closes
 * the top dialog only and does nothing else on the page. While something would be lost, because a
 * field differs from what it was, every way out asks first. When it closes, the focus returns to
 * the element that opened it, or to the content if that element no longer exists. If another dialog
 * is open, the focus stays there.
 */
import { Button, Group, Modal, type ModalProps, Text } from "@mantine/core";
import { createContext, useContext, useEffect, useLayoutEffect, useRef, useState } from "react";
import { useUnsaved } from "./unsaved";

/** Open dialogs, the top one last. Escape closes only the top one. */
const open: object[] = [];

const CloseContext = createContext<(() => void) | undefined>(undefined);

/** Closes the dialog around the component, and asks first if something would be lost. */
export const useCloseDialog = () => useContext(CloseContext);

/** A field that opens a list when it gets the focus would cover the others. */
const FIELD = ":is(input, select, textarea):not(:disabled, [type=hidden], [type=file], [aria-haspopup])";

/** The library focuses what has this attribute, and else the first control: the close button. */
const FOCUS_MARK = "data-autofocus";

/** The first field, or the first button of a dialog without fields. */
function markFirstField(content: HTMLElement | null): void {
	if (content === null || content.querySelector(`[${FOCUS_MARK}]`) !== null) return;
	(content.querySelector(FIELD) ?? content.querySelector("button:not(:disabled)"))?.setAttribute(FOCUS_MARK, "");
}

type Field = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement;

const isField = (target: EventTarget): target is Field =>
	target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;

const isChoice = (field: Field): field is HTMLInputElement =>
	field instanceof HTMLInputElement && /^(checkbox|radio)$/.test(field.type);

const contentOf = (field: Field) => (isChoice(field) ? String(field.checked) : field.value);

/** Notes each field when it first has the focus, to know later whether it differs from that. */
function useFields() {
	const [before] = useState(() => new Map<Field, string>());
	return {
		isChanged: () => [...before].some(([field, content]) => field.isConnected && contentOf(field) !== content),
		watch: {
			onFocusCapture: ({ target }: { readonly target: EventTarget }) => {
				if (isField(target) && !before.has(target)) before.set(target, contentOf(target));
			},
			// Some browsers change a box or a list without focusing it.
			onChange: ({ target }: { readonly target: EventTarget }) => {
				if (isField(target) && !before.has(target)) before.set(target, isChoice(target) ? String(!target.checked) : "");
			},
		},
	};
}

export function Dialog({
	onClose,
	isDirty,
	closeOnEscape = true,
	children,
	...props
}: Omit<ModalProps, "opened" | "returnFocus"> & {
	/**
	 * Whether closing would lose something, for content that is not in fields or that is no loss;
	 * undefined: its fields decide.
	 */
	readonly isDirty?: boolean | undefined;
}) {
	const [opener] = useState(() => document.activeElement);
	const [self] = useState(() => ({}));
	const [isAsking, setAsking] = useState(false);
	const { isChanged, watch } = useFields();
	const isUnsaved = () => isDirty ?? isChanged();
	useUnsaved(isUnsaved);
	const close = () => {
		if (open.at(-1) !== self) return;
		if (isUnsaved()) setAsking(true);
		else onClose();
	};
	const closing = useRef(close);
	closing.current = close;
	// Before the next key: passive effects run a frame late, and Escape would reach a closed dialog.
	useLayoutEffect(() => {
		open.push(self);
		return () => void open.splice(open.indexOf(self), 1);
	}, [self]);
	useLayoutEffect(() => {
		// A list that is open inside the dialog closes by itself, and marks its field.
		const onKey = (event: KeyboardEvent) => {
			const isTaken =
				event.target instanceof Element && event.target.getAttribute("data-mantine-stop-propagation") === "true";
			if (event.key !== "Escape" || event.isComposing || event.defaultPrevented || isTaken) return;
			if (open.at(-1) !== self) return;
			event.preventDefault();
			if (closeOnEscape) closing.current();
		};
		window.addEventListener("keydown", onKey, { capture: true });
		return () => window.removeEventListener("keydown", onKey, { capture: true });
	}, [self, closeOnEscape]);
	useEffect(
		() => () => {
			requestAnimationFrame(() => {
				// The dialog led to another field, or one that closed with it has returned the focus.
				if (document.activeElement !== null && document.activeElement !== document.body) return;
				const others = [...document.querySelectorAll("[role=dialog]")];
				if (others.length > 0 && !others.some((other) => other.contains(opener))) return;
				const target = opener?.isConnected === true ? opener : document.getElementById("content");
				if (target instanceof HTMLElement) target.focus({ preventScroll: true });
			});
		},
		[opener],
	);
	return (
		<Modal opened returnFocus={false} closeOnEscape={false} onClose={close} {...props}>
			<CloseContext.Provider value={close}>
				<div className="dialog-content" ref={markFirstField} {...watch}>
					{children}
				</div>
			</CloseContext.Provider>
			{isAsking ? (
				<Discard
					text="What you entered in this dialog is not kept."
					onKeep={() => setAsking(false)}
					onDiscard={onClose}
				/>
			) : null}
		</Modal>
	);
}

export function Discard({
	text,
	onKeep,
	onDiscard,
}: {
	readonly text: string;
	readonly onKeep: () => void;
	readonly onDiscard: () => void;
}) {
	return (
		<Dialog onClose={onKeep} title="Discard what you entered?" size="sm">
			<Text size="sm">{text}</Text>
			<Group justify="flex-end" mt="md">
				<Button variant="default" disabled={false} data-autofocus onClick={onKeep}>
					Keep editing
				</Button>
				<Button color="red" disabled={false} onClick={onDiscard}>
					Discard
				</Button>
			</Group>
		</Dialog>
	);
}
