/**
 * Errors of a form in the words of the screen. The API names the refused fields of its request; a field that the form shows gets its message at the
 * field (`atField`), the others are listed above the buttons with readable names. No path of the API is shown.
 */
import { CapstanError } from "../api";

interface Issue {
	readonly path: string;
	readonly message: string;
}

const isIssue = (value: unknown): value is Issue =>
	typeof value === "object" && value !== null && "path" in value && "message" in value;

/** The fields that the API refused; empty for other errors. */
function issuesOf(error: Error | null | undefined): readonly Issue[] {
	const issues = error instanceof CapstanError && error.code === "invalid_request" ? error.moreInfo.issues : undefined;
	return Array.isArray(issues) ? issues.filter(isIssue) : [];
}

const sentence = (text: string) => {
	const whole = `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
	return /[.!?]$/.test(whole) ? whole : `${whole}.`;
};

/** `rolloutPercentage` → `Rollout percentage`, `body.app_id` → `App id`. */
function readable(path: string): string {
	const [last = path] = path
		.split(".")
		.filter((part) => !/^\d+$/.test(part))
		.slice(-1);
	const words = last
		.replaceAll("_", " ")
		.replaceAll(/([a-z])([A-Z])/g, (_, end: string, begin: string) => `${end} ${begin.toLowerCase()}`);
	return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`;
}

/** The message for one field of the form; undefined if the API accepts it. */
export function atField(error: Error | null | undefined, field: string): string | undefined {
	const issue = issuesOf(error).find(({ path }) => path === field || path.endsWith(`.${field}`));
	return issue === undefined ? undefined : sentence(issue.message);
}

/** The error without the fields that show their message themselves; null if none is left. */
export function withoutFields(error: Error | null, fields: readonly string[]): Error | null {
	const issues = issuesOf(error);
	return issues.length > 0 &&
		issues.every(({ path }) => fields.some((field) => path === field || path.endsWith(`.${field}`)))
		? null
		: error;
}

/** The error's text, with readable names of the fields. */
export function errorText(error: CapstanError): string {
	const issues = issuesOf(error);
	if (issues.length === 0) return error.message;
	return issues
		.map(({ path, message }) => (path === "" ? sentence(message) : sentence(`${readable(path)} ${message}`)))
		.join(" ");
}
