/**
 * The commands of the written CI jobs, each with the folder of the repository that it runs in, and
 * the words of YAML and the shell around them. Names of folders, branches and apps may contain any
 * character, and are read as they are.
 */
import type { CiFacts, Step } from "./ci-facts";
import { installCommand, setUpCommands } from "./package-managers";

/** Facts with the name of the files and jobs. */
export type NamedFacts = CiFacts & { readonly name: string };

/** One word of a shell command. */
export const shellWord = (text: string) =>
	/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** A YAML string; quoted only where YAML would read something else. */
export const scalar = (text: string) =>
	/^[a-z][\w@%+=:,./ -]*$/i.test(text) && !/: |:$/.test(text) && !isKeyword(text) ? text : JSON.stringify(text);

/** As `scalar`, in a list. */
export const listed = (text: string) =>
	/^[a-z][\w./-]*$/i.test(text) && !isKeyword(text) ? text : JSON.stringify(text);

const isKeyword = (text: string) => /^(true|false|null|yes|no|on|off|y|n)$/i.test(text);

export const installSteps = ({ installation }: CiFacts, withScripts: boolean): readonly Step[] => [
	{ folder: installation.folder, command: installCommand(installation, withScripts) },
];

export const setUpSteps = ({ installation }: CiFacts): readonly Step[] =>
	setUpCommands(installation).map((command) => ({ folder: installation.folder, command }));

type Published = "release" | "preview upload" | "preview close";

/**
 * Exit codes that are no failure of the job: a release that waits for approval, and a preview that
 * has ended meanwhile.
 */
const FINE: Readonly<Record<Published, number | undefined>> = {
	release: 3,
	"preview upload": 6,
	"preview close": undefined,
};

export function publishStep(facts: CiFacts, name: Published, more = ""): Step {
	const { origin, command, appId, webDir, folder, platform } = facts;
	const build = name === "preview close" ? "" : ` ${shellWord(webDir)}`;
	const meant = platform === undefined || name === "preview close" ? "" : ` --platform ${platform}`;
	const fine = FINE[name] === undefined ? "" : ` || [ $? -eq ${FINE[name]} ]`;
	return {
		// The job that closes a preview has no files.
		folder: name === "preview close" ? "" : folder,
		command: `npx --yes ${command} ${name}${build} --server ${origin} --app ${shellWord(appId)}${meant}${more}${fine}`,
	};
}

/** The path of something below a folder of the repository, such as `apps/mobile/dist`. */
export function pathIn(folder: string, path: string): string {
	const parts: string[] = [];
	for (const part of [...folder.split("/"), ...path.replaceAll("\\", "/").split("/")]) {
		if (part === "..") parts.pop();
		else if (part !== "" && part !== ".") parts.push(part);
	}
	return parts.join("/");
}
