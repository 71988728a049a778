/**
 * Unsaved changes of all forms: each form registers, and while one of them would lose something,
 * every way out of the page asks first: a link, the browser's back and forward, a reload, a closed
 * tab. Moving on after the server confirmed a change never asks, and neither does a change of the
 * address that keeps the screen, such as a filter.
 */
import { useEffect, useRef, useSyncExternalStore } from "react";
import type { AroundNavHandler } from "wouter";

interface Form {
	isUnsaved(): boolean;
}

/** The forms of the page; each is asked when somebody leaves. */
const forms = new Set<Form>();
const isAnyUnsaved = () => [...forms].some((form) => form.isUnsaved());

/** Continues the way out that waits for an answer. */
let leave: (() => void) | undefined;
const listeners = new Set<() => void>();

function setLeave(next: (() => void) | undefined): void {
	leave = next;
	for (const listener of listeners) listener();
}

/** The way out that waits for an answer; undefined: nobody leaves. */
export const useLeaving = () =>
	useSyncExternalStore(
		(listener) => {
			listeners.add(listener);
			return () => listeners.delete(listener);
		},
		() => leave,
	);

export const stay = () => setLeave(undefined);

export function leaveAnyway(): void {
	const waiting = leave;
	setLeave(undefined);
	withoutAsking(() => waiting?.());
}

/** Registers a form, which says when somebody leaves whether something would be lost. */
export function useUnsaved(isUnsaved: () => boolean): void {
	const form = useRef<Form>({ isUnsaved });
	form.current.isUnsaved = isUnsaved;
	useEffect(() => {
		const { current } = form;
		forms.add(current);
		return () => void forms.delete(current);
	}, []);
}

let isFree = false;

/** Runs a step of the program, such as opening what was just created, that nobody is asked about. */
export function withoutAsking(step: () => void): void {
	isFree = true;
	try {
		step();
	} finally {
		isFree = false;
	}
}

/** For the router: every link and every navigation of a screen goes through it. */
export const guardNavigation: AroundNavHandler = (navigate, to, options) => {
	const isSamePage = new URL(to, location.href).pathname === location.pathname;
	if (isFree || isSamePage || options?.replace === true || !isAnyUnsaved()) navigate(to, options);
	else setLeave(() => navigate(to, options));
};

/** The address of the page; the browser changes its own before it says so. */
let address = location.href;
let isGoingBack = false;

function onTraversal(event: Event): void {
	const isOther = new URL(address).pathname !== location.pathname;
	if (isGoingBack || !isOther || !isAnyUnsaved()) {
		isGoingBack = false;
		address = location.href;
		return;
	}
	// The page's own entry is put behind the one that was asked for, so one step back leads there.
	// No part of the dashboard learns that the address was another for a moment.
	event.stopImmediatePropagation();
	history.pushState(null, "", address);
	setLeave(() => {
		isGoingBack = true;
		history.back();
	});
}

/** Before the router listens, which would show the other screen. */
export function guardLeaving(): void {
	addEventListener("popstate", onTraversal);
	for (const moved of ["pushState", "replaceState"]) {
		addEventListener(moved, () => {
			address = location.href;
		});
	}
	addEventListener("beforeunload", (event) => {
		if (isAnyUnsaved()) event.preventDefault();
	});
}
