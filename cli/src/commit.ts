/**
 * The commit that a build comes from, as the CI system or git names it, for the bundle's comment
 * and link. A project without git has none; options of the command win.
 */
import { ciJobOf } from "./ci-job";
import type { Run } from "./command";
import { git, headOf, type Place, placeOf } from "./git";

export interface Commit {
	/** Lower-case hexadecimal. */
	readonly commit: string;
	readonly branch: string | undefined;
	readonly author: string | undefined;
	/** The first line of the message. */
	readonly subject: string | undefined;
	/** The build folder may contain other changes than the commit. */
	readonly isChanged: boolean;
	/** The page of the commit; undefined if its host is unknown. */
	readonly url: string | undefined;
}

const LONGEST_SUBJECT = 200;
const SHORT = 8;

/** @returns undefined where neither CI nor git knows a commit */
export async function commitOf({ directory, environment }: Run): Promise<Commit | undefined> {
	const [log, branch, changes, place] = await Promise.all([
		git(directory, "log", "-1", "--format=%H%n%an%n%s"),
		headOf(directory),
		git(directory, "status", "--porcelain", "--untracked-files=no"),
		placeOf(directory),
	]);
	const [hash, author, subject] = log?.split("\n") ?? [];
	const job = ciJobOf(environment);
	const commit = (hash || job.commit)?.toLowerCase();
	if (commit === undefined || !/^[0-9a-f]{40,64}$/.test(commit)) return undefined;
	return {
		commit,
		branch: branch || job.branch,
		author: author ?? job.author,
		subject: subject?.slice(0, LONGEST_SUBJECT),
		isChanged: (changes ?? "") !== "",
		url: job.commitPages === undefined ? urlOf(commit, place) : job.commitPages + commit,
	};
}

function urlOf(commit: string, place: Place | undefined): string | undefined {
	if (place?.system === undefined || !place.origin.startsWith("https:")) return undefined;
	return `${place.origin}/${place.path}${place.system === "gitlab" ? "/-" : ""}/commit/${commit}`;
}

/** Such as `Fix the cart (main, 1a2b3c4d, Ada)`. */
export function commentOf({ commit, branch, author, subject, isChanged }: Commit): string {
	const short = `${commit.slice(0, SHORT)}${isChanged ? " with changes" : ""}`;
	const facts = [branch, short, author].filter((fact) => fact !== undefined).join(", ");
	return subject === undefined ? facts : `${subject} (${facts})`;
}
