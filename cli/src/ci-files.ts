/**
 * The CI jobs of a project: which system runs them, by the remote of the repository and its files,
 * and the facts that they depend on. Jobs stand at the root of the repository, where its system
 * looks for them, and run in the folder of the project.
 */
import { stat } from "node:fs/promises";
import { join, relative } from "node:path";
import { type CiFacts, KEY_SECRET } from "../../src/client/ci-facts";
import { CI_SYSTEMS, type CiSystem, ciFiles } from "../../src/client/ci-workflow";
import { type Installation, PACKAGE_MANAGERS } from "../../src/client/package-managers";
import { packageAddress } from "./api";
import { buildOf } from "./build-order";
import { type Run, text } from "./command";
import { KEY_FILE, namesPublicKey } from "./encryption";
import { usage } from "./failure";
import { type Branch, type Checkout, checkoutOf, mainBranchOf, placeOf, refusalOf } from "./git";
import { GITLAB_FILE, isIncluded, refusesMergeRequests, stagesOf, withInclude } from "./gitlab-file";
import { readText } from "./json-file";
import { nodeOf } from "./node-version";
import { installationOf } from "./package-manager";
import type { Project } from "./project";
import { type RegistrySecrets, registrySecretsOf } from "./registry-secrets";
import { isEnterpriseServer, type Repository, repositoryOf } from "./repository";
import { counted } from "./terminal";
import { question } from "./terminal-question";

export interface FileChange {
	/** Relative to the project. */
	readonly path: string;
	readonly before: string;
	readonly after: string;
}

/** Addresses of this computer. */
export const LOOPBACK = /^https?:\/\/(localhost|127\.[\d.]+|\[::1\])(:|$)/;
/** Addresses of a local network, which the machines of a public host do not reach. */
const LOCAL_NETWORK =
	/^https?:\/\/(10\.[\d.]+|192\.168\.[\d.]+|172\.(1[6-9]|2\d|3[01])\.[\d.]+|169\.254\.[\d.]+|[\w-]+\.local)(:|$)/;
const PUBLIC_HOSTS = ["https://github.com", "https://gitlab.com"];

export interface Ci {
	/** Undefined: no workflow was wanted. */
	readonly system: CiSystem | undefined;
	/** Undefined if the provider does not tell. */
	readonly repository: Repository | undefined;
	/** Such as `acme/shop`, by the remote. */
	readonly path: string | undefined;
	/** The folder of the project in the repository. */
	readonly folder: string;
	readonly branch: string | undefined;
	/** As in the facts of the jobs. */
	readonly platform: CiFacts["platform"];
	readonly changes: readonly FileChange[];
	readonly kept: readonly string[];
	readonly notes: readonly string[];
}

const NONE = {
	system: undefined,
	repository: undefined,
	path: undefined,
	folder: "",
	branch: undefined,
	platform: undefined,
	changes: [],
	kept: [],
};

const isCiSystem = (name: string | undefined): name is CiSystem => CI_SYSTEMS.some((system) => system === name);

interface Wanted {
	readonly project: Project;
	readonly origin: string;
	readonly appId: string;
}

/** @throws {Failure} `invalid_option`, and what `packageAddress` throws */
export async function ciOf(run: Run, { project, origin, appId }: Wanted): Promise<Ci> {
	const named = text(run.options, "ci");
	if (named !== undefined && named !== "none" && !isCiSystem(named)) {
		throw usage("invalid_option", `--ci must be github, gitlab or none; it is "${named}".`, { field: "ci" });
	}
	if (named === "none") return { ...NONE, notes: [] };
	const place = await placeOf(run.directory);
	const isPublic = place === undefined || PUBLIC_HOSTS.includes(place.origin);
	const isLocal = LOOPBACK.test(origin) || (isPublic && LOCAL_NETWORK.test(origin));
	if (named === undefined && isLocal) {
		const note = `CI cannot reach ${origin}, so no workflow was written; run init again with the deployed server.`;
		return { ...NONE, notes: [note] };
	}
	const checkout = await checkoutOf(run.directory);
	const system = named ?? (await systemOf(run, checkout));
	if (system === undefined) {
		const note = `No workflow was written, because ${place?.origin} is neither GitHub nor GitLab. Pass --ci github or --ci gitlab if it is; ${origin}/docs/ci has jobs of other systems.`;
		return { ...NONE, notes: [note] };
	}
	const command = await packageAddress(origin, run.version);
	const repository = await repositoryOf(run, system);
	const branch = await branchOf(run, repository);
	const installation = await installationOf(checkout);
	const node = await nodeOf(checkout);
	const secrets = await registrySecretsOf(checkout, system);
	const stages = system === "gitlab" ? await stagesOf(checkout.root) : undefined;
	const platform = project.hasBoth && project.kind !== "none" ? project.kind : undefined;
	const facts: CiFacts = {
		origin,
		command,
		appId,
		folder: checkout.folder,
		...(platform === undefined ? {} : { platform }),
		webDir: project.webDir ?? "dist",
		branch: branch.name,
		installation,
		...(node === undefined ? {} : { node }),
		...(secrets.names.length === 0 ? {} : { registrySecrets: secrets.names }),
		...(stages === undefined ? {} : { stages }),
		build: await buildOf(checkout, installation),
		isEncrypted: await isEncrypted(project),
		...(place !== undefined && isEnterpriseServer(system, place.origin) ? { isEnterpriseServer: true } : {}),
	};
	refuseExpressions(facts);
	const refusal = await refusalOf(run.directory);
	const notes = [
		...(refusal === undefined
			? []
			: [`git says nothing about this repository, so its remote and branches are unknown: ${refusal}`]),
		...(isLocal ? [`CI cannot reach ${origin}; run init again with the deployed server.`] : []),
		`Releases come from the branch ${branch.name}${branch.isGuess ? ", a guess" : ""}; --branch names another one.`,
		...(facts.build.length === 0
			? ["package.json has no script named build, so the jobs build nothing; add one, and run init again."]
			: []),
		...installationNotes(installation),
		...(stages?.isGuess === true
			? [
					`${GITLAB_FILE} may get its stages from an include that cannot be read here; the jobs are in the stages ${stages.build} and ${stages.publish}, so change those if the pipeline has others.`,
				]
			: []),
		...(system === "gitlab" && (await refusesMergeRequests(checkout.root))
			? [
					`The workflow rules of ${GITLAB_FILE} start no pipelines of merge requests, so previews do not run; add - if: $CI_PIPELINE_SOURCE == "merge_request_event" to them.`,
				]
			: []),
		...registryNotes(system, secrets),
		...(facts.isEncrypted ? [secretNote(system)] : []),
	];
	const changes: FileChange[] = [];
	const kept: string[] = [];
	for (const { path, content, included } of ciFiles(system, facts)) {
		const file = join(checkout.root, path);
		const shown = relative(run.directory, file).replaceAll("\\", "/");
		const before = await readText(file);
		if (before === undefined) changes.push({ path: shown, before: "", after: content });
		else if (before !== content && isOwn(before, content, command)) {
			changes.push({ path: shown, before, after: content });
		} else if (before !== content && included === undefined) {
			kept.push(shown);
			notes.push(`${shown} exists and was not changed. Rename it and run init again to get the jobs of this version.`);
		} else if (included !== undefined && !isIncluded(before, included)) {
			const after = withInclude(before, included);
			if (after !== undefined) changes.push({ path: shown, before, after });
			else {
				kept.push(shown);
				notes.push(`${shown} was not changed. Add to its list "include":\n  - local: ${included}`);
			}
		}
	}
	return {
		system,
		repository,
		path: place?.path,
		folder: checkout.folder,
		branch: branch.name,
		platform,
		changes,
		kept,
		notes,
	};
}

function installationNotes({ manager, pinned, lock, ignoredLock }: Installation): string[] {
	const { usual } = PACKAGE_MANAGERS[manager];
	if (ignoredLock !== undefined) {
		return [
			`package.json pins ${pinned}, so the jobs install with it and without ${ignoredLock}, which is of another package manager. Correct "packageManager" or the lock file, and run init again.`,
		];
	}
	return [
		...(lock === undefined
			? ["There is no lock file, so each job installs the newest packages; commit one, and run init again."]
			: []),
		...(pinned === undefined && usual !== undefined
			? [`package.json pins no package manager, so the jobs install ${usual}; add "packageManager" to pin yours.`]
			: []),
	];
}

/** Whether the files differ in the version of the command only. */
const isOwn = (before: string, content: string, command: string) =>
	before.replace(/(?<=npx --yes )https?:\/\/\S+\/capstan[\w.+-]*\.tgz/g, () => command) === content;

/**
 * By the remote, and then by the files of the repository; GitHub if neither says, undefined for
 * another host.
 */
async function systemOf(run: Run, { root }: Checkout): Promise<CiSystem | undefined> {
	const place = await placeOf(run.directory);
	if (place?.system !== undefined) return place.system;
	const has = (path: string) =>
		stat(join(root, path)).then(
			() => true,
			() => false,
		);
	if (await has(".gitlab-ci.yml")) return "gitlab";
	if (await has(".github/workflows")) return "github";
	return place === undefined ? "github" : undefined;
}

/** As git takes it. Its other characters are patterns in a workflow. */
const BRANCH = /^(?![-/.])(?!.*(?:\.\.|\/\/|@\{))[^\s~^:?*[\\\p{Cc}]+(?<![/.])$/u;

/** @throws {Failure} `invalid_option` */
function namedBranch(name: string): Branch {
	if (BRANCH.test(name)) return { name, isGuess: false };
	throw usage("invalid_option", `"${name}" is no name of a branch; write one such as main.`, { field: "branch" });
}

/** @throws {Failure} `invalid_option` */
async function branchOf(run: Run, repository: Repository | undefined): Promise<Branch> {
	const named = text(run.options, "branch");
	if (named !== undefined) return namedBranch(named);
	if (repository !== undefined) return { name: repository.branch, isGuess: false };
	const branch = await mainBranchOf(run.directory);
	if (!branch.isGuess) return branch;
	const answer = await question(run.terminal, `Which branch is released? [${branch.name}] `);
	return answer === undefined ? branch : namedBranch(answer || branch.name);
}

/**
 * GitHub replaces expressions before the shell sees the command.
 * @throws {Failure} `invalid_option`
 */
function refuseExpressions({ appId, webDir, branch, folder, build }: CiFacts): void {
	const built = build.flatMap((step) => [step.folder, step.command]);
	const expression = [appId, webDir, branch, folder, ...built].find((name) => name.includes("${{"));
	if (expression === undefined) return;
	throw usage("invalid_option", `"${expression}" has an expression of GitHub Actions; rename it, or pass --ci none.`);
}

async function isEncrypted(project: Project): Promise<boolean> {
	return namesPublicKey(project) || (await readText(join(project.directory, KEY_FILE))) !== undefined;
}

/** GitHub gives it to each job, and takes no secret of the name. */
const JOB_TOKEN = "GITHUB_TOKEN";

function registryNotes(system: CiSystem, { files, names: all }: RegistrySecrets): string[] {
	const names = all.filter((name) => name !== JOB_TOKEN);
	if (names.length === 0) return [];
	const reads = `${files.join(" and ")} ${files.length === 1 ? "reads" : "read"} ${names.join(", ")}`;
	return system === "github"
		? [
				`${reads}, so the jobs install with ${counted(names.length, "secret")}: ${names.map((name) => `gh secret set ${name}`).join(", ")}`,
			]
		: [
				`${reads}: save ${names.length === 1 ? "it as a masked variable" : "them as masked variables"} for all branches, because merge requests install as well.`,
			];
}

const secretNote = (system: CiSystem) =>
	system === "github"
		? `The app is encrypted: save the private key as the secret ${KEY_SECRET}: gh secret set ${KEY_SECRET} < ${KEY_FILE}`
		: `The app is encrypted: save the private key as the variable ${KEY_SECRET}, with the environment scope capstan*, so that the job that builds does not get it.`;
