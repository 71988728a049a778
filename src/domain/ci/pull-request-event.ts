/**
 * The content of webhooks of GitHub and GitLab about pull requests. Only the end and the reopening
 * of one count; every other event is ignored.
 */
import * as v from "valibot";
import { LARGEST_NUMBER, REPOSITORY_PATH } from "./context";

export interface PullRequestEvent {
	readonly action: "closed" | "reopened";
	/** In lower case. */
	readonly repository: string;
	readonly repositoryId: string;
	readonly number: number;
	/** Time of the change at the provider. */
	readonly atMs: number;
}

const id = v.pipe(v.number(), v.safeInteger(), v.minValue(1), v.transform(String));
const number = v.pipe(v.number(), v.safeInteger(), v.minValue(1), v.maxValue(LARGEST_NUMBER));
const path = v.pipe(v.string(), v.maxLength(256), v.regex(REPOSITORY_PATH), v.toLowerCase());
/** GitHub writes RFC 3339, and GitLab either that or "2026-11-21 08:00:00 UTC". */
const time = v.pipe(
	v.string(),
	v.regex(/^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}/),
	v.transform((text) => Date.parse(text.replace(/^(\S+) (\S+) UTC$/, "$1T$2Z"))),
	v.check((atMs) => !Number.isNaN(atMs)),
);

const githubSchema = v.object({
	action: v.picklist(["closed", "reopened"]),
	number,
	repository: v.object({ id, full_name: path }),
	pull_request: v.object({ updated_at: time, closed_at: v.nullish(time) }),
});

const gitlabSchema = v.object({
	object_kind: v.literal("merge_request"),
	object_attributes: v.object({ iid: number, action: v.picklist(["close", "merge", "reopen"]), updated_at: time }),
	project: v.object({ id, path_with_namespace: path }),
});

/** @returns undefined for an event that neither closes nor reopens a pull request */
export function githubEvent(event: string, payload: unknown): PullRequestEvent | undefined {
	if (event !== "pull_request") return undefined;
	const { success, output } = v.safeParse(githubSchema, payload);
	if (!success) return undefined;
	const { closed_at, updated_at } = output.pull_request;
	return {
		action: output.action,
		repository: output.repository.full_name,
		repositoryId: output.repository.id,
		number: output.number,
		// The end of a pull request does not move when somebody comments on it later.
		atMs: output.action === "closed" ? (closed_at ?? updated_at) : updated_at,
	};
}

/** @returns undefined for an event that neither closes nor reopens a merge request */
export function gitlabEvent(payload: unknown): PullRequestEvent | undefined {
	const { success, output } = v.safeParse(gitlabSchema, payload);
	if (!success) return undefined;
	const { iid, action, updated_at } = output.object_attributes;
	return {
		action: action === "reopen" ? "reopened" : "closed",
		repository: output.project.path_with_namespace,
		repositoryId: output.project.id,
		number: iid,
		atMs: updated_at,
	};
}
