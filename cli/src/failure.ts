/**
 * Failures of the command line: a stable code for programs, a sentence with a remedy for people,
 * and the exit code for CI. An error of the server keeps its own code. Nothing here may contain a
 * key.
 */
import { CapstanError } from "../../src/client/client";

/** Exit codes, as cli/README.md documents them. */
export const EXIT = {
	ok: 0,
	/** The server or the project refused. */
	failure: 1,
	/** Wrong options, or a project that lacks something. */
	usage: 2,
	/** The release waits for approval. */
	waiting: 3,
	/** No key, or one that may not do this. */
	denied: 4,
	/** The server did not answer; try again. */
	unreachable: 5,
	/** The preview has ended, with its pull request or by a person. */
	closed: 6,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export class Failure extends Error {
	override readonly name = "Failure";
	constructor(
		/** E.g. `missing_key`. */
		readonly code: string,
		message: string,
		readonly exitCode: ExitCode = EXIT.failure,
		readonly details: Readonly<Record<string, unknown>> = {},
	) {
		super(message);
	}
}

export const usage = (code: string, message: string, details: Readonly<Record<string, unknown>> = {}) =>
	new Failure(code, message, EXIT.usage, details);

/**
 * Any thrown value as a failure. The message of an unexpected error is shown, because it is the
 * user's own machine.
 */
export function failureOf(error: unknown): Failure {
	if (error instanceof Failure) return error;
	if (error instanceof CapstanError) return refusal(error);
	const { code, path } = error as { readonly code?: unknown; readonly path?: unknown };
	if (typeof code === "string" && code.startsWith("ERR_PARSE_ARGS_")) {
		// The rest of the message is about positional arguments.
		const [problem] = (error as Error).message.split(/\.\s/);
		return usage("invalid_option", `${problem}. Add --help to see the options.`);
	}
	const problem = typeof code === "string" && typeof path === "string" ? FILE_PROBLEMS[code] : undefined;
	if (problem !== undefined) {
		return new Failure(String(code).toLowerCase(), `${path}: ${problem}, and run the command again.`, EXIT.failure, {
			file: path,
		});
	}
	const message = error instanceof Error ? error.message : String(error);
	return new Failure(typeof code === "string" ? code.toLowerCase() : "unexpected_error", message);
}

const NOT_ALLOWED = "this account may not read or write it. Change its permissions";
const NO_DIRECTORY =
	"a part of this path is a file, or a link that leads nowhere, where a directory is expected. Rename it";
/** Errors of the operating system about a file, with their remedy. */
const FILE_PROBLEMS: Readonly<Record<string, string>> = {
	EACCES: NOT_ALLOWED,
	EPERM: NOT_ALLOWED,
	EROFS: "it is on a file system that is read-only. Use a directory that can be written",
	ENOSPC: "the disk is full, so no file was changed. Make room",
	EDQUOT: "the disk quota of this account is used up, so no file was changed. Make room",
	ENOTDIR: NO_DIRECTORY,
	EEXIST: NO_DIRECTORY,
	EISDIR: "it is a directory where a file is expected. Rename it",
	ELOOP: "it is a link that leads to itself. Remove it",
	ENAMETOOLONG: "the path is too long for this computer. Use a shorter one",
};

/** @param name its channel or pull request */
export const previewEnded = (name: string) =>
	`The preview ${name} has ended: its pull request was closed, or a person closed it. A later event such as a new push opens it again; pass the time of that event with --event-at if the CI system does not name it.`;

function refusal(error: CapstanError): Failure {
	const details = {
		status: error.status,
		...error.moreInfo,
		...(error.requestId === "" ? {} : { requestId: error.requestId }),
	};
	if (error.code === "preview_closed") {
		return new Failure(error.code, previewEnded(String(error.moreInfo.channel ?? "")), EXIT.closed, details);
	}
	if (error.code === "unreadable_answer") {
		const message = `The server's address answers, but not as Capstan does: ${error.message.trim().replace(/:$/, "")}. Check --server and any proxy, then try again.`;
		return new Failure(error.code, message, EXIT.unreachable, details);
	}
	return new Failure(error.code, IN_OUR_WORDS[error.code] ?? withIssues(error), exitCodeOf(error), details);
}

/** Remedies of the server are requests of its API; a person at this command has others. */
const IN_OUR_WORDS: Readonly<Record<string, string>> = {
	invalid_api_key:
		"The server does not know this API key: it is incomplete, or was revoked. Run capstan login for another one, or correct --key or CAPSTAN_TOKEN.",
	expired_api_key: "The API key has expired. Run capstan login for another one, or ask an administrator to extend it.",
	app_not_found:
		"This key cannot see the app. Create the app with capstan init, name another one with --app, or use a key of the app's organization.",
	nothing_to_roll_back_to:
		"The channel has served nothing before, so there is nothing to return to. Name a version to return to, or the store build: capstan rollback builtin",
	version_was_used:
		"Devices got other content under this version, and a device that has it would not load it again. Choose another version.",
	bundle_not_found:
		"The app has no bundle with this version; the page Bundles of the dashboard lists those that it has.",
};

function exitCodeOf({ status }: CapstanError): ExitCode {
	if (status === 401 || status === 403) return EXIT.denied;
	return status === 429 || status >= 500 ? EXIT.unreachable : EXIT.failure;
}

/** The message with the fields that it is about, one a line, unless it names them already. */
function withIssues({ message, moreInfo }: CapstanError): string {
	const { issues } = moreInfo;
	if (!Array.isArray(issues) || issues.length < 2) return message;
	const lines = issues.map((issue: { path?: unknown; message?: unknown }) => `  ${issue.path}: ${issue.message}`);
	return [message, ...lines].join("\n");
}
