/**
 * The one comment of an app on a pull request, at GitHub or GitLab. It is found again by its first
 * line, a marker that readers do not see, and only among comments of the token's own account,
 * because anybody may write the same line.
 */
import { repeating, type Send } from "./api";
import type { Run } from "./command";
import { EXIT, Failure } from "./failure";
import type { PullRequest } from "./pull-request";

const TIME_LIMIT_MS = 30_000;
const PAGE_SIZE = 100;
const MOST_PAGES = 50;

export interface Comment {
	/** Address of the comment; undefined at GitLab, which does not answer it. */
	readonly url: string | undefined;
	readonly created: boolean;
}

interface Author {
	readonly id?: number;
	/** GitHub. */
	readonly login?: string;
}
interface StoredComment {
	readonly id: number;
	readonly body?: string | null;
	readonly html_url?: string;
	/** GitHub. */
	readonly user?: Author | null;
	/** GitLab. */
	readonly author?: Author;
}

interface Place {
	readonly token: string;
	/** The name of the token's variable. */
	readonly variable: string;
	/** Addresses of the comments of the pull request, of one comment, and of the token's account. */
	readonly list: string;
	readonly account: string;
	one(id: number): string;
	readonly update: "PATCH" | "PUT";
	readonly permission: string;
	/** The login of the account whose token may not ask for its account. */
	readonly botOfJobs: string | undefined;
}

/**
 * Writes the comment, or replaces the text of the one that is there.
 * @param onlyIfThere true: writes no new comment
 * @returns undefined if there is none and none was wanted
 * @throws {Failure} `missing_comment_token`, `comment_refused`
 */
export async function putComment(
	run: Run,
	pull: PullRequest,
	{ marker, text }: { readonly marker: string; readonly text: string },
	onlyIfThere = false,
): Promise<Comment | undefined> {
	const place = placeOf(run, pull);
	const known = await ownComment(run, place, marker);
	if (known === undefined && onlyIfThere) return undefined;
	const [method, url] =
		known === undefined ? (["POST", place.list] as const) : ([place.update, place.one(known.id)] as const);
	const answer = await call<StoredComment>(run, place, method, url, { body: `${marker}\n${text}` });
	return { url: answer.html_url, created: known === undefined };
}

/**
 * Finds a token that is missing or wrong before anything changes. Other problems of the provider
 * are left to `putComment`.
 * @throws {Failure} `missing_comment_token`, `comment_refused`
 */
export async function checkCommentToken(run: Run, pull: PullRequest): Promise<void> {
	const place = placeOf(run, pull);
	const answer = await sendOnce(run, place)(place.account, { method: "GET" }).catch(() => undefined);
	if (answer?.status === 401) throw refused(place, answer.status);
}

/** @throws {Failure} `missing_comment_token` */
function placeOf(run: Run, { repository, number, repositoryId }: PullRequest): Place {
	const { environment } = run;
	const isGitlab = environment.GITLAB_CI === "true";
	const variable = isGitlab ? "GITLAB_TOKEN" : "GITHUB_TOKEN";
	const token = environment[variable]?.trim() ?? "";
	if (token === "") {
		const remedy = isGitlab
			? "Set GITLAB_TOKEN to a project access token with the scope api, because the token of a job may not comment."
			: "Set GITHUB_TOKEN to github.token in the environment of the step.";
		throw new Failure("missing_comment_token", `No token for the comment. ${remedy}`, EXIT.denied);
	}
	run.terminal.conceal(token);
	if (isGitlab) {
		const base = baseOf(environment.CI_API_V4_URL, "https://gitlab.com/api/v4");
		const list = `${base}/projects/${encodeURIComponent(repositoryId ?? repository)}/merge_requests/${number}/notes`;
		const permission = "GITLAB_TOKEN must be a project access token with the scope api and the role Reporter";
		return {
			token,
			variable,
			list,
			account: `${base}/user`,
			one: (id) => `${list}/${id}`,
			update: "PUT",
			permission,
			botOfJobs: undefined,
		};
	}
	const base = baseOf(environment.GITHUB_API_URL, "https://api.github.com");
	const issues = `${base}/repos/${repository.split("/").map(encodeURIComponent).join("/")}/issues`;
	return {
		token,
		variable,
		list: `${issues}/${number}/comments`,
		account: `${base}/user`,
		update: "PATCH",
		botOfJobs: "github-actions[bot]",
		one: (id) => `${issues}/comments/${id}`,
		permission: "the job needs permissions: pull-requests: write",
	};
}

const baseOf = (address: string | undefined, fallback: string) => (address || fallback).replace(/\/+$/, "");

async function ownComment(run: Run, place: Place, marker: string): Promise<StoredComment | undefined> {
	const account = await accountOf(run, place);
	for (let page = 1; page <= MOST_PAGES; page++) {
		const url = `${place.list}?per_page=${PAGE_SIZE}&page=${page}`;
		const comments = await call<readonly StoredComment[]>(run, place, "GET", url);
		const own = comments.find(({ body, user, author }) => {
			const writer = user ?? author;
			const isOwn = account === undefined ? writer?.login === place.botOfJobs : writer?.id === account;
			return isOwn && body?.startsWith(marker) === true;
		});
		if (own !== undefined || comments.length < PAGE_SIZE) return own;
	}
	return undefined;
}

/** Undefined for the token of a GitHub job, which belongs to `botOfJobs` and may not ask. */
async function accountOf(run: Run, place: Place): Promise<number | undefined> {
	const response = await send(run, place)(place.account, { method: "GET" });
	if (response.ok) return ((await response.json()) as Author).id;
	if (response.status === 403 && place.botOfJobs !== undefined) return undefined;
	throw refused(place, response.status);
}

async function call<Answer>(run: Run, place: Place, method: string, url: string, body?: object): Promise<Answer> {
	const init = { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
	const response = await send(run, place)(url, init);
	if (!response.ok) throw refused(place, response.status);
	return (await response.json()) as Answer;
}

function sendOnce(run: Run, { token, list }: Place): Send {
	return async (url, init) => {
		try {
			return await fetch(url, {
				...init,
				headers: {
					authorization: `Bearer ${token}`,
					accept: "application/json",
					"content-type": "application/json",
					"user-agent": `capstan-cli/${run.version}`,
				},
				signal: AbortSignal.timeout(TIME_LIMIT_MS),
			});
		} catch {
			throw new Failure("comment_refused", `${new URL(list).host} does not answer; try again.`, EXIT.unreachable);
		}
	};
}

function send(run: Run, place: Place): Send {
	const once = sendOnce(run, place);
	const again = repeating(once);
	// A repeated POST could write a second comment.
	return (url, init) => (init.method === "POST" ? once(url, init) : again(url, init));
}

function refused({ list, permission, variable }: Place, status: number): Failure {
	const isDenied = status === 401 || status === 403 || status === 404;
	const exitCode = isDenied ? EXIT.denied : status === 429 || status >= 500 ? EXIT.unreachable : EXIT.failure;
	const remedy = status === 401 ? `: ${variable} is wrong or has expired` : isDenied ? `: ${permission}` : "";
	return new Failure("comment_refused", `${new URL(list).host} answered ${status} to the comment${remedy}.`, exitCode, {
		status,
	});
}
