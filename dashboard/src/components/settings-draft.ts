/**
 * Changes of stored values before they are saved. Fields that nobody touched follow what is stored,
 * and a field that has its stored value again is not changed.
 */
import { useState } from "react";

export interface Draft<Values> {
	readonly values: Values;
	/** Only the fields that differ from what is stored: the body of a request. */
	readonly changed: Partial<Values>;
	set(values: Partial<Values>): void;
	discard(): void;
	/** After the server stored `values`: fields that were changed again meanwhile stay changed. */
	settle(values: Partial<Values>): void;
}

export function useDraft<Values extends Readonly<Record<string, string | number | boolean>>>(
	stored: Values,
): Draft<Values> {
	const [touched, setTouched] = useState<Partial<Values>>({});
	const changed = Object.fromEntries(
		Object.entries(touched).filter(([field, value]) => value !== stored[field]),
	) as Partial<Values>;
	return {
		values: { ...stored, ...changed },
		changed,
		set: (values) => setTouched((before) => ({ ...before, ...values })),
		discard: () => setTouched({}),
		settle: (saved) =>
			setTouched((before) => {
				const isSettled = ([field, value]: [string, unknown]) => saved[field] === value;
				return Object.fromEntries(Object.entries(before).filter((entry) => !isSettled(entry))) as Partial<Values>;
			}),
	};
}

/** The longest value that a sentence repeats. */
const LONGEST = 24;

/** `website`, or `website → https://example.com`: a long or empty value is not repeated. */
export function changeText(label: string, before: string | number, after: string | number): string {
	const isShort = [before, after].every((value) => String(value) !== "" && String(value).length <= LONGEST);
	return isShort ? `${label} ${before} → ${after}` : label;
}

/** `turn on “Keys must expire”` */
export const switchText = (label: string, isOn: boolean) => `turn ${isOn ? "on" : "off"} “${label}”`;
