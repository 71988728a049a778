/**
 * The facts that the written CI jobs depend on. The command finds them in a project; the dashboard
 * assumes the usual ones.
 */
import type { Installation } from "./package-managers";

export interface Step {
	/** In the repository; empty for its root. */
	readonly folder: string;
	readonly command: string;
}

/** The stages of a GitLab pipeline that jobs are in. */
export interface Stages {
	readonly build: string;
	/** Not before the other. */
	readonly publish: string;
}

/** Pipelines have them that name none. */
export const USUAL_STAGES: Stages = { build: "build", publish: "deploy" };

export interface NodeOfProject {
	/** In the repository, such as `.nvmrc`. */
	readonly file: string;
	/** As tags of images name it, such as `22.11.0` or `lts`. */
	readonly version: string;
}

/** The major version that jobs run on by themselves. */
export const USUAL_NODE = "22";

export interface CiFacts {
	/** Address of the server. */
	readonly origin: string;
	/** Address of the package of the command. */
	readonly command: string;
	readonly appId: string;
	/** Folder of the project in the repository; empty for its root. */
	readonly folder: string;
	/** The project of a directory that has a Capacitor and an Electron project. */
	readonly platform?: "capacitor" | "electron";
	/** Build folder, relative to the project. */
	readonly webDir: string;
	/** Releases come from it. */
	readonly branch: string;
	readonly installation: Installation;
	/** Commands that build the project, after the packages of its workspace that it needs. */
	readonly build: readonly Step[];
	/** Default: the usual ones. */
	readonly stages?: Stages;
	/** The Node that the project names for its build; undefined: that of all jobs. */
	readonly node?: NodeOfProject;
	/** Whether the jobs run on a GitHub Enterprise Server. */
	readonly isEnterpriseServer?: boolean;
	/** Secrets that the package manager's settings read, such as the token of a private registry. */
	readonly registrySecrets?: readonly string[];
	/** Whether the app accepts encrypted bundles only. */
	readonly isEncrypted: boolean;
}

/** The name of the secret with the key that bundles are encrypted with. */
export const KEY_SECRET = "CAPSTAN_PRIVATE_KEY";
