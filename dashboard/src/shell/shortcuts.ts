/**
 * Keyboard shortcuts. They never fire while somebody types, while a dialog is open (except those of
 * the palette), or with another modifier. A switch in the account turns the single keys off, for
 * people whose speech input sends letters; Ctrl K stays.
 */
import { useLayoutEffect, useRef } from "react";
import { useLocation } from "wouter";
import { notify } from "../components/notify";
import { areShortcutsOn } from "../components/shortcut-switch";
import { appPath, organizationPath } from "../paths";
import { APP_PLACES } from "./places";

export type Overlay = "palette" | "help" | "switcher" | "more";

const isApple = /Mac|iPhone|iPad/.test(navigator.platform);
export const SEARCH_KEY = isApple ? "⌘ K" : "Ctrl K";
const CONFIRM_KEY = isApple ? "⌘ ↵" : "Ctrl ↵";

interface Shortcut {
	readonly keys: readonly string[];
	readonly text: string;
}

export const SHORTCUTS: readonly { readonly title: string; readonly shortcuts: readonly Shortcut[] }[] = [
	{
		title: "Everywhere",
		shortcuts: [
			{ keys: [SEARCH_KEY], text: "Search and act" },
			{ keys: ["?"], text: "This help" },
			{ keys: ["R"], text: "Release what the page shows" },
			{ keys: ["/"], text: "Go to the filter of the list" },
			{ keys: [CONFIRM_KEY], text: "Confirm a dialog, e.g. release" },
			{ keys: ["Esc"], text: "Close, or go back to the list" },
		],
	},
	{
		title: "Go to",
		shortcuts: [
			{ keys: ["G", "A"], text: "Apps: switch" },
			...APP_PLACES.flatMap(({ key, label }) =>
				key === undefined ? [] : [{ keys: ["G", key.toUpperCase()], text: label }],
			),
		],
	},
	{
		title: "Lists",
		shortcuts: [
			{ keys: ["J"], text: "Next row" },
			{ keys: ["K"], text: "Previous row" },
			{ keys: ["↵"], text: "Open the row" },
			{ keys: ["X"], text: "Select the row" },
			{ keys: ["Shift", "J"], text: "Select on to the next row" },
			{ keys: ["C"], text: "Copy the id" },
		],
	},
];

const isTyping = (target: EventTarget | null) =>
	target instanceof HTMLElement &&
	(target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
	!/^(checkbox|radio|button)$/.test(target.getAttribute("type") ?? "");

const ROW = ".table tbody tr, .line .ev, .rows .entry";

/** The link of each row of the screen's lists, or what opens the row. */
const rowControls = () =>
	[...document.querySelectorAll(`main :is(${ROW})`)].flatMap(
		(row) =>
			row.querySelector<HTMLElement>("td:first-child a, th a, .link") ??
			row.querySelector<HTMLElement>(".entry-opener") ??
			[],
	);

const pickOf = (row: Element | null | undefined) => row?.querySelector<HTMLInputElement>("[data-pick]");

/** @param isSelecting also selects the row that the focus leaves and the one that it reaches */
function moveRow(step: number, isSelecting: boolean): void {
	const controls = rowControls();
	const row = document.activeElement?.closest(ROW);
	const index = controls.findIndex((control) => row?.contains(control) === true);
	const next = index === -1 ? (step > 0 ? 0 : controls.length - 1) : index + step;
	const reached = controls[Math.min(Math.max(next, 0), controls.length - 1)];
	reached?.focus();
	if (!isSelecting) return;
	for (const each of [row, reached?.closest(ROW)]) {
		const box = pickOf(each);
		if (box?.checked === false) box.click();
	}
}

function focusFilter(): void {
	document.querySelector<HTMLElement>("main [data-filter], main form input:not([type=hidden])")?.focus();
}

/** Copies the id of the focused row, or else the first one of the page. */
function copyId(): void {
	const row = document.activeElement?.closest(ROW);
	const id = row?.querySelector<HTMLElement>("[data-id]")?.dataset.id;
	if (id !== undefined) {
		void navigator.clipboard.writeText(id).then(() => notify(`Copied ${id}`));
		return;
	}
	(row?.querySelector<HTMLElement>(".chip") ?? document.querySelector<HTMLElement>("main .chip"))?.click();
}

/** Keys that move through the rows. */
const STEPS: Readonly<Record<string, number>> = { j: 1, k: -1 };

const WAIT_MS = 1_500;

export function useShortcuts({
	appId,
	orgId,
	setOverlay,
	prepareSearch,
}: {
	readonly appId: string | undefined;
	readonly orgId: string | undefined;
	readonly setOverlay: (overlay: Overlay) => void;
	readonly prepareSearch: () => void;
}): void {
	const [location, navigate] = useLocation();
	const goAtMs = useRef(Number.NEGATIVE_INFINITY);
	// Before the next key: a key on a new page must not act on the one before.
	useLayoutEffect(() => {
		const go = (key: string) => {
			if (key === "a") return setOverlay("switcher");
			const place = APP_PLACES.find((one) => one.key === key);
			if (place !== undefined && appId !== undefined) navigate(appPath(appId, place.screen));
			else if (place !== undefined && orgId !== undefined) navigate(organizationPath(orgId));
		};
		const back = () => {
			const [, kind, id, screen, item] = location.split("/");
			if (item !== undefined) navigate(`/${kind}/${id}/${screen}`);
		};
		const single: Readonly<Record<string, () => void>> = {
			"?": () => setOverlay("help"),
			"/": focusFilter,
			r: () => document.querySelector<HTMLElement>("main [data-release]:not(:disabled)")?.click(),
			x: () => pickOf(document.activeElement?.closest(ROW))?.click(),
			c: copyId,
			Escape() {
				const clear = document.querySelector<HTMLElement>("main [data-clear-selection]");
				if (clear === null) back();
				else clear.click();
			},
		};
		const onKey = (event: KeyboardEvent) => {
			const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
			// The first half of Ctrl K.
			if (key === "Control" || key === "Meta") prepareSearch();
			if (key === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
				event.preventDefault();
				if (document.querySelector("[role=dialog]") === null) setOverlay("palette");
				return;
			}
			const isBusy = isTyping(event.target) || document.querySelector("[role=dialog], [role=menu]") !== null;
			if (isBusy || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !areShortcutsOn())
				return;
			const follows = event.timeStamp - goAtMs.current < WAIT_MS;
			goAtMs.current = key === "g" && !follows ? event.timeStamp : Number.NEGATIVE_INFINITY;
			const step = STEPS[key];
			const run = follows ? () => go(key) : step === undefined ? single[key] : () => moveRow(step, event.shiftKey);
			if (run === undefined) return;
			event.preventDefault();
			run();
		};
		document.addEventListener("keydown", onKey);
		return () => document.removeEventListener("keydown", onKey);
	}, [appId, orgId, location, navigate, setOverlay, prepareSearch]);
}
