/**
 * `capstan preview`: the preview of a pull request from CI. Each command is safe to repeat, and the
 * server decides by the time of the event whether a preview may open, so jobs that run late or
 * twice do no harm.
 */
import { appendFile } from "node:fs/promises";
import { CapstanError } from "../../../src/client/client";
import { MOST_PREVIEW_DAYS, PREVIEW_DAYS } from "../../../src/domain/defaults";
import { sleep } from "../api";
import { changeChannel } from "../channels";
import { type Command, numberOf, type Option, type Run, text } from "../command";
import { type Comment, checkCommentToken, putComment } from "../comments";
import { buildOf, CONTENT_OPTIONS, type Content, contentOf } from "../content";
import { EXIT, Failure, failureOf, previewEnded } from "../failure";
import { closedText, type ListedPreview, markerOf, openText, type Preview, type PreviewPage } from "../preview-text";
import { PULL_REQUEST_OPTIONS, type PullRequest, pullRequestOf } from "../pull-request";
import { platformOf, resolve, type Settings } from "../settings";
import { counted, sizeText } from "../terminal";
import { type Uploaded, uploadBundle } from "../upload";

const OPEN_OPTIONS: Readonly<Record<string, Option>> = {
	...PULL_REQUEST_OPTIONS,
	commit: { type: "string", value: "hash", help: "Commit of the build; default: that of the CI job" },
	title: { type: "string", value: "text", help: "Title; default: that of the pull request" },
	days: { type: "string", value: "number", help: `Days without an upload until it closes (default ${PREVIEW_DAYS})` },
};
const POST_COMMENT: Readonly<Record<string, Option>> = {
	"post-comment": { type: "boolean", help: "Write the comment of preview comment as well" },
};

const URL_FILE: Readonly<Record<string, Option>> = {
	"url-file": {
		type: "string",
		value: "file",
		help: "Append CAPSTAN_PREVIEW_URL=… to a file that the CI system reads",
	},
};

export const previewOpen: Command = {
	name: "preview open",
	usage: "preview open",
	summary: "Open the preview of a pull request, or renew it.",
	mostWords: 0,
	options: OPEN_OPTIONS,
	examples: ["capstan preview open", "capstan preview open --repository acme/shop --number 128 --days 30"],
	async run(run) {
		const pull = await pullRequestOf(run, "push");
		const settings = await settingsOf(run, pull);
		const preview = await open(run, settings, pull);
		run.terminal.result("preview open", answerOf(preview));
		run.terminal.line(`${run.terminal.style("green", "Open")} ${titleOf(pull)} on ${preview.channel}`);
		run.terminal.line(`Versions begin with ${preview.version_prefix}`, preview.page_url);
		return EXIT.ok;
	},
};

export const previewUpload: Command = {
	name: "preview upload",
	usage: "preview upload [folder]",
	summary: "Upload a build folder to the preview of a pull request, which it opens or renews.",
	mostWords: 1,
	options: { ...OPEN_OPTIONS, ...CONTENT_OPTIONS, ...POST_COMMENT, ...URL_FILE },
	examples: ["capstan preview upload", "capstan preview upload dist --post-comment --json"],
	async run(run) {
		const pull = await pullRequestOf(run, "push");
		const settings = await settingsOf(run, pull);
		const build = await buildOf(run, settings.project);
		const content = await contentOf(run, settings.project, build, undefined);
		const isCommented = run.options["post-comment"] === true;
		if (isCommented) await checkCommentToken(run, pull);
		const preview = await open(run, settings, pull);
		const { version, uploaded } = await uploadTo(run, settings, pull, preview, content);
		const facts = { channel: preview.channel, version, page_url: preview.page_url };
		const urlFile = text(run.options, "url-file");
		if (urlFile !== undefined) await appendFile(urlFile, `CAPSTAN_PREVIEW_URL=${preview.page_url}\n`);
		const comment = isCommented
			? await orFailWith("The upload is live", facts, writeComment(run, settings, pull))
			: undefined;
		const sent = uploaded?.uploadedBytes ?? 0;
		run.terminal.result("preview upload", {
			...answerOf(preview),
			version,
			package: content.form,
			encrypted: content.encryption !== undefined,
			files: build.files.length,
			size_bytes: build.sizeBytes,
			uploaded_files: uploaded?.uploadedFiles ?? 0,
			uploaded_bytes: sent,
			...(comment === undefined ? {} : { comment: commentAnswer(comment) }),
		});
		const what = uploaded === undefined ? "already uploaded" : `${sizeText(sent)} uploaded`;
		run.terminal.line(`${counted(build.files.length, "file")}, ${sizeText(build.sizeBytes)}; ${what}`);
		run.terminal.line(`${run.terminal.style("green", "Preview")} ${version} on ${preview.channel}`, preview.page_url);
		return EXIT.ok;
	},
};

export const previewComment: Command = {
	name: "preview comment",
	usage: "preview comment",
	summary: "Write the comment about the preview on the pull request, or update the one that is there.",
	mostWords: 0,
	options: PULL_REQUEST_OPTIONS,
	examples: ["capstan preview comment", "capstan preview comment --repository acme/shop --number 128"],
	async run(run) {
		const pull = await pullRequestOf(run, "push");
		const settings = await settingsOf(run, pull);
		const comment = await writeComment(run, settings, pull);
		run.terminal.result("preview comment", {
			app_id: settings.appId,
			repository: pull.repository,
			number: pull.number,
			comment: commentAnswer(comment),
		});
		const done = comment === undefined ? "No comment to update" : comment.created ? "Commented" : "Updated the comment";
		run.terminal.line(`${done} on ${titleOf(pull)}`, ...(comment?.url === undefined ? [] : [comment.url]));
		return EXIT.ok;
	},
};

export const previewClose: Command = {
	name: "preview close",
	usage: "preview close",
	summary: "Close the preview of a pull request, and delete its channel and bundles.",
	mostWords: 0,
	options: { ...PULL_REQUEST_OPTIONS, ...POST_COMMENT },
	examples: ["capstan preview close", "capstan preview close --repository acme/shop --number 128 --json"],
	async run(run) {
		const pull = await pullRequestOf(run, "end");
		const settings = await settingsOf(run, pull);
		if (run.options["post-comment"] === true) await checkCommentToken(run, pull);
		const { state, removed } = await settings.server.api("DELETE /preview", {
			query: {
				app_id: settings.appId,
				repository: pull.repository,
				number: String(pull.number),
				...(pull.eventAt === undefined ? {} : { event_at: pull.eventAt }),
			},
		});
		const isCommented = run.options["post-comment"] === true && state === "closed";
		const facts = { status: state, removed_bundles: removed.bundles, removed_bytes: removed.bundle_bytes };
		const comment = isCommented
			? await orFailWith("The preview is closed", facts, writeClosed(run, settings, pull))
			: undefined;
		run.terminal.result("preview close", {
			...facts,
			app_id: settings.appId,
			repository: pull.repository,
			number: pull.number,
			...(isCommented ? { comment: commentAnswer(comment) } : {}),
		});
		const deleted = `${counted(removed.bundles, "bundle")} deleted, ${sizeText(removed.bundle_bytes)}`;
		run.terminal.line(
			state === "open"
				? `The preview of ${titleOf(pull)} stays open, because the pull request was reopened since.`
				: `${run.terminal.style("green", "Closed")} ${titleOf(pull)}; ${deleted}`,
		);
		return EXIT.ok;
	},
};

const titleOf = ({ repository, number }: PullRequest) => `${repository}#${number}`;

const answerOf = (preview: Preview) => ({
	status: "open",
	app_id: preview.app_id,
	repository: preview.repository,
	number: preview.number,
	channel: preview.channel,
	version_prefix: preview.version_prefix,
	page_url: preview.page_url,
	expires_at: preview.expires_at,
});

const commentAnswer = (comment: Comment | undefined) =>
	comment === undefined ? null : { created: comment.created, url: comment.url ?? null };

/** @throws {Failure} `fork_without_identity` for the job of a fork that has no key */
async function settingsOf(run: Run, pull: PullRequest): Promise<Settings> {
	try {
		return await resolve(run, ["preview"], platformOf(run));
	} catch (error) {
		const { code } = failureOf(error);
		if (!pull.isFromFork || (code !== "missing_key" && code !== "no_matching_publisher")) throw error;
		throw new Failure(
			"fork_without_identity",
			`${titleOf(pull)} comes from a fork, whose jobs get no identity token and no secrets, so it has no preview. Push its branch to ${pull.repository} to preview it.`,
			EXIT.denied,
		);
	}
}

/** @throws {CapstanError} `preview_closed` if the pull request ended after the event */
async function open(run: Run, { server, appId }: Settings, pull: PullRequest): Promise<Preview> {
	const days = numberOf(run.options, "days", 1, MOST_PREVIEW_DAYS);
	if (pull.isClosed) throw closed(`${titleOf(pull)} is closed, so its preview has ended.`);
	run.terminal.progress(`Opening the preview of ${titleOf(pull)}`);
	const { repository, number, repositoryId, commit, title, eventAt } = pull;
	return server.api("POST /preview", {
		body: {
			app_id: appId,
			repository,
			number,
			...(repositoryId === undefined ? {} : { repository_id: repositoryId }),
			...(commit === undefined ? {} : { commit }),
			...(title === undefined || title.trim() === "" ? {} : { title }),
			...(days === undefined ? {} : { days }),
			...(eventAt === undefined ? {} : { event_at: eventAt }),
		},
	});
}

const closed = (message: string) => new Failure("preview_closed", message, EXIT.closed);

interface Result {
	readonly version: string;
	/** Undefined if a run before has uploaded the same content. */
	readonly uploaded: Uploaded | undefined;
}

async function uploadTo(
	run: Run,
	settings: Settings,
	pull: PullRequest,
	preview: Preview,
	content: Content,
): Promise<Result> {
	const { server, appId } = settings;
	const { channel } = preview;
	if (channel === null) throw closed(previewEnded(`of ${titleOf(pull)}`));
	try {
		const result = await bundleOf(run, settings, preview, content);
		run.terminal.progress(`Releasing ${result.version} to ${channel}`);
		await changeChannel(server, { app_id: appId, channel, version: result.version });
		return result;
	} catch (error) {
		// The end of the preview deletes its channel, bundles and uploads, also those that are under way.
		const isMissing = error instanceof CapstanError && (error.status === 404 || error.status === 409);
		if (isMissing && (await find(settings, pull))?.state === "closed")
			throw closed(previewEnded(`of ${titleOf(pull)}`));
		throw error;
	}
}

async function bundleOf(run: Run, { server, appId }: Settings, preview: Preview, content: Content): Promise<Result> {
	const isUploaded = async (version: string) => {
		const [bundle] = await server.api("GET /bundle", { query: { app_id: appId, version } });
		return bundle?.checksum === content.checksum;
	};
	if (preview.version !== null && (await isUploaded(preview.version))) {
		return { version: preview.version, uploaded: undefined };
	}
	const version = nextVersion(preview, content);
	const app = await server.api("GET /app/:app_id", { params: { app_id: appId } });
	const progress = (line: string) => run.terminal.progress(line);
	try {
		return { version, uploaded: await uploadBundle({ server, app, version, ...content, fields: {}, progress }) };
	} catch (error) {
		const isTaken = error instanceof CapstanError && error.code === "bundle_already_exists";
		if (isTaken && (await isUploaded(version))) return { version, uploaded: undefined };
		throw error;
	}
}

/**
 * The next number, and a part of the content's hash. A preview that is opened again counts from 1,
 * and a device that has the bundle of a version does not download another one of the same name.
 */
function nextVersion({ channel, version, version_prefix: prefix }: Preview, { build }: Content): string {
	// A prefix is null if the channel's name has characters that versions do not have.
	const begin = prefix ?? `0.0.0-${channel?.replace(/[^0-9A-Za-z-]/g, "-")}.`;
	const last = version?.startsWith(begin) === true ? Number.parseInt(version.slice(begin.length), 10) : 0;
	return `${begin}${(Number.isSafeInteger(last) ? last : 0) + 1}.h${build.digest.slice(0, 8)}`;
}

async function find(
	{ server, appId }: Settings,
	{ repository, number }: PullRequest,
): Promise<ListedPreview | undefined> {
	const query = { app_id: appId, repository, number: String(number) };
	const [preview] = await server.api("GET /preview", { query });
	return preview;
}

/** @throws {Failure} `preview_not_found` */
async function writeComment(run: Run, settings: Settings, pull: PullRequest): Promise<Comment | undefined> {
	run.terminal.progress(`Commenting on ${titleOf(pull)}`);
	const preview = await find(settings, pull);
	if (preview === undefined) {
		throw new Failure("preview_not_found", `${titleOf(pull)} has no preview; open it with capstan preview upload.`);
	}
	if (preview.state === "closed") return writeClosed(run, settings, pull);
	const { page_url } = preview;
	if (page_url === null) {
		throw new Failure(
			"permission_denied",
			`The preview of ${titleOf(pull)} was opened by another key; comment with the key that opened it.`,
		);
	}
	const shown = { ...preview, page_url };
	const text = openText(settings.appId, shown, await pageOf(settings, shown));
	return putComment(run, pull, { marker: markerOf(settings.appId, settings.server.origin), text });
}

/** The failure of the comment, with what the command did before. */
const orFailWith = (done: string, facts: object, comment: Promise<Comment | undefined>) =>
	comment.catch((error: unknown) => {
		const { code, message, exitCode, details } = failureOf(error);
		throw new Failure(code, `${message} ${done}; only the comment is missing.`, exitCode, {
			...details,
			...facts,
		});
	});

/** A pull request without a comment gets none about the end. */
const writeClosed = (run: Run, { appId, server }: Settings, pull: PullRequest) =>
	putComment(run, pull, { marker: markerOf(appId, server.origin), text: closedText(appId) }, true);

const MOST_PAGE_READS = 8;
const PAGE_PAUSE_MS = 1_000;

/** The page can lag by seconds, so it is read again until it shows this bundle. */
async function pageOf({ server }: Settings, { page_url, version }: Preview): Promise<PreviewPage> {
	const token = new URL(page_url).hash.slice(1);
	for (let reads = 1; ; reads++) {
		const page = await server.api("POST /preview/show", { body: { token } });
		if (page.version === version || reads >= MOST_PAGE_READS) return page;
		await sleep(PAGE_PAUSE_MS);
	}
}
