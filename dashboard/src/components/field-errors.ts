/**
 * Errors of a form in the words of the screen. An error names the refused fields of its request
 * (`moreInfo.issues`), or has a code that means one of them; a field that the form shows gets its
 * message at the field, the others are listed above the buttons.
 */
import { CapstanError } from "../../../src/client/client";
import { errorSentence } from "./error-sentences";
import { fieldLabel } from "./field-labels";
import { capital } from "./setting-words";

interface Issue {
	readonly path: string;
	readonly message: string;
}

const isIssue = (value: unknown): value is Issue =>
	typeof value === "object" && value !== null && "path" in value && "message" in value;

/** The fields that the API refused; empty for other errors. */
function issuesOf(error: Error | null | undefined): readonly Issue[] {
	if (!(error instanceof CapstanError)) return [];
	const { issues } = error.moreInfo;
	const sentence = errorSentence(error);
	return Array.isArray(issues)
		? issues.filter(isIssue).map(({ path, message }) => ({ path, message: sentence ?? message }))
		: [];
}

const isAt = (path: string, field: string) =>
	path === field || path.endsWith(`.${field}`) || path.startsWith(`${field}.`) || path.includes(`.${field}.`);

/** Names of an input's field in the request, and codes of errors that are about it. */
type Names = readonly string[];

interface FormErrors {
	/** The message for an input; undefined if the API accepts its value. */
	at(...names: Names): string | undefined;
	/** The error, unless inputs show all of it. */
	readonly rest: Error | null;
}

/**
 * Places an error at the inputs of a form.
 * @param shown every name and code that the form's inputs ask for with `at`
 */
export function formErrors(error: Error | null | undefined, shown: Names): FormErrors {
	const issues = issuesOf(error);
	const code = error instanceof CapstanError ? error.code : undefined;
	return {
		at: (...names) => {
			const found = issues.filter(({ path }) => names.some((name) => isAt(path, name)));
			if (found.length > 0) return found.map(({ message }) => asSentence(message)).join(" ");
			return error instanceof CapstanError && names.includes(error.code) ? errorText(error) : undefined;
		},
		rest:
			(issues.length > 0 && issues.every(({ path }) => shown.some((name) => isAt(path, name)))) ||
			(code !== undefined && shown.includes(code))
				? null
				: (error ?? null),
	};
}

/** A message of a field begins in lower case, because it follows the name of the field. */
const asSentence = (message: string) => capital(/[.!?…]$/.test(message) ? message : `${message}.`);

/** The screen's own sentence, else the API's message, with readable names of the fields. */
export function errorText(error: CapstanError): string {
	const sentence = errorSentence(error);
	if (sentence !== undefined) return sentence;
	const issues = issuesOf(error);
	if (issues.length === 0) return asSentence(error.message);
	return issues
		.map(({ path, message }) => asSentence(path === "" ? message : `${fieldLabel(path)} ${message}`))
		.join(" ");
}
