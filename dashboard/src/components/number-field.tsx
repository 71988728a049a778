/**
 * Input for a number that is not negative. What is typed stays as it is typed until the field is
 * left; then it is the number that the caller got, within its limits. A comma is a decimal point.
 */
import { TextInput, type TextInputProps } from "@mantine/core";
import { type KeyboardEvent, useState } from "react";

/** `""` is an empty field. */
type Entered = number | "";

interface Props extends Omit<TextInputProps, "value" | "defaultValue" | "onChange"> {
	readonly value: number | string;
	readonly onChange: (value: Entered) => void;
	readonly min: number;
	readonly max: number;
	/** Digits after the point. */
	readonly decimals?: number;
}

const enteredOf = (text: string): Entered => (/\d/.test(text) ? Number(text) : "");

/** The part of a text that is a number with at most `decimals` digits after the point. */
function numberText(text: string, decimals: number): string {
	const allowed = text.replaceAll(",", ".").replaceAll(/[^\d.]/g, "");
	const number = decimals === 0 ? /^\d*/ : new RegExp(`^\\d*(\\.\\d{0,${decimals}})?`);
	return number.exec(allowed)?.[0] ?? "";
}

export function NumberField({ value, onChange, min, max, decimals = 0, onBlur, ...props }: Props) {
	const [text, setText] = useState(String(value));
	const [known, setKnown] = useState(value);
	if (!Object.is(value, known)) {
		setKnown(value);
		// Not while somebody types the same number in another way, such as `5.`.
		if (enteredOf(text) !== value) setText(String(value));
	}
	const show = (next: Entered) => {
		setText(String(next));
		if (next !== value) onChange(next);
	};
	const within = (number: number) => Math.min(Math.max(number, min), max);
	const entered = enteredOf(text);
	return (
		<TextInput
			{...props}
			inputMode={decimals === 0 ? "numeric" : "decimal"}
			autoComplete="off"
			value={text}
			onChange={({ currentTarget }) => {
				const typed = numberText(currentTarget.value, decimals);
				// The same text as before would not be written again over a character that is not allowed.
				currentTarget.value = typed;
				setText(typed);
				onChange(enteredOf(typed));
			}}
			onBlur={(event) => {
				show(entered === "" ? "" : within(entered));
				onBlur?.(event);
			}}
			onKeyDown={(event: KeyboardEvent) => {
				const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
				if (step === undefined) return;
				event.preventDefault();
				show(within((entered === "" ? 0 : entered) + step));
			}}
		/>
	);
}
