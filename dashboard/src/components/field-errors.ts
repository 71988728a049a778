/**
 * Errors of a form in the words of the screen. The API names the refused fields of its request, or has a code that means one of them; a field that
 * the form shows gets its message at the field, the others are listed above the buttons with readable names. No path of the API is shown.
 */
import { CapstanError } from "../api";
import { capital, fieldWords, namedField, screenWords } from "./screen-words";

interface Issue {
	readonly path: string;
	readonly message: string;
}

const isIssue = (value: unknown): value is Issue =>
	typeof value === "object" && value !== null && "path" in value && "message" in value;

/** The fields that the API refused, from its list or the beginning of its message; empty for other errors. */
function issuesOf(error: Error | null | undefined): readonly Issue[] {
	if (!(error instanceof CapstanError)) return [];
	const { issues } = error.moreInfo;
	if (error.code === "invalid_request" && Array.isArray(issues)) return issues.filter(isIssue);
	const named = namedField(error.message);
	return named === undefined ? [] : [{ path: named.field, message: named.text }];
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
			if (found.length > 0) return found.map(({ message }) => screenWords(message)).join(" ");
			return error instanceof CapstanError && names.includes(error.code) ? errorText(error) : undefined;
		},
		rest:
			(issues.length > 0 && issues.every(({ path }) => shown.some((name) => isAt(path, name)))) ||
			(code !== undefined && shown.includes(code))
				? null
				: (error ?? null),
	};
}

const UNEXPLAINED = "The server did not accept this. Load the page again, then retry.";

/** The error's text, with readable names of the fields. */
export function errorText(error: CapstanError): string {
	const issues = issuesOf(error);
	if (issues.length === 0) return screenWords(error.message) || UNEXPLAINED;
	return issues
		.map(({ path, message }) => screenWords(path === "" ? message : `${capital(fieldWords(path))} ${message}`))
		.join(" ");
}
