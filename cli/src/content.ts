/**
 * The content of a bundle as the options of a run ask for it: the build folder, the form in which
 * devices get it, and its encryption. Releases and previews share it.
 */
import { resolve as absolute } from "node:path";
import { type Build, readBuild, zipOf } from "./build-folder";
import { type Option, type Run, text } from "./command";
import { type Encryption, encryptionWith, KEY_FILE, namesPublicKey, privateKeyOf } from "./encryption";
import { usage } from "./failure";
import { exposureProblem } from "./key-exposure";
import { type NativePackages, nativePackagesOf } from "./native-packages";
import type { Project } from "./project";
import { PLATFORM_OPTION } from "./settings";
import { counted } from "./terminal";
import { checksumOf, type Form } from "./upload";

const FORMS: readonly Form[] = ["delta", "zip", "all"];

export const CONTENT_OPTIONS: Readonly<Record<string, Option>> = {
	...PLATFORM_OPTION,
	package: { type: "string", value: "form", help: "delta, zip or all; default: delta, for Electron zip" },
	"private-key": { type: "string", value: "file", help: "Encrypt with this key; default: .capgo_key_v2" },
	"no-encryption": { type: "boolean", help: "Do not encrypt" },
	"include-hidden": { type: "boolean", help: "Also files whose name begins with a dot" },
	"include-source-maps": { type: "boolean", help: "Also source maps (.map)" },
	"ignore-app-ready": { type: "boolean", help: "Upload although no file calls notifyAppReady()" },
};

export interface Content {
	readonly build: Build;
	readonly form: Form;
	readonly encryption: Encryption | undefined;
	/** Undefined for single files alone. */
	readonly zip: Uint8Array<ArrayBuffer> | undefined;
	/** The same for the same build and private key. */
	readonly checksum: string;
	/** Plugins of the project, from which the server learns the store builds that the bundle fits. */
	readonly nativePackages: NativePackages | undefined;
}

/** @throws {Failure} unless the folder is a bundle that stays on devices */
export async function buildOf(run: Run, project: Project): Promise<Build> {
	const folder = run.words[0] ?? project.webDir;
	if (folder === undefined) {
		throw usage(
			"missing_folder",
			"Name the build folder, such as dist, as the first argument. (Build your app before; webDir of capacitor.config is the default.)",
		);
	}
	run.terminal.progress(`Reading ${folder}`);
	const build = await readBuild(absolute(run.directory, folder), {
		hidden: run.options["include-hidden"] === true,
		sourceMaps: run.options["include-source-maps"] === true,
	});
	noteLeftOut(run, build);
	if (!build.confirmsStart && project.kind !== "electron" && run.options["ignore-app-ready"] !== true) {
		throw usage(
			"missing_notify_app_ready",
			`No file of ${folder} calls CapacitorUpdater.notifyAppReady(), so devices would roll back to the bundle before. Call it when your app has started, or pass --ignore-app-ready.`,
			{ folder },
		);
	}
	return build;
}

const MOST_NAMED = 5;

/** Names what stays behind, because a person may miss it on the device. */
function noteLeftOut(run: Run, { leftOut }: Build): void {
	if (leftOut.length === 0) return;
	const named = leftOut.slice(0, MOST_NAMED).join(", ");
	const others = leftOut.length - MOST_NAMED;
	run.terminal.note(
		`Left out ${counted(leftOut.length, "file")}: ${named}${others > 0 ? ` and ${others} more` : ""}. --include-hidden and --include-source-maps add them.`,
	);
}

/**
 * @param wanted `updatePackage` of the channel that gets the bundle; undefined: a preview, which
 * testers of a pull request get for a short time, so it goes without the zip that a device is
 * offered when its files fail twice
 */
export async function contentOf(
	run: Run,
	project: Project,
	build: Build,
	wanted: string | undefined,
): Promise<Content> {
	const form = formOf(run, project, wanted);
	const key = await privateKeyOf(run, project);
	if (key === undefined && namesPublicKey(project)) {
		run.terminal.note("The app has a publicKey, so its devices refuse this bundle, which is not encrypted.");
	}
	const exposure = await exposureProblem(absolute(run.directory, text(run.options, "private-key") ?? KEY_FILE));
	if (key !== undefined && exposure !== undefined) run.terminal.note(`Warning: ${exposure.detail}.`);
	const encryption = key === undefined ? undefined : encryptionWith(key);
	const zip = form === "delta" ? undefined : await zipOf(build);
	const checksum = checksumOf(build, zip, encryption);
	return { build, form, encryption, zip, checksum, nativePackages: await pluginsOf(run, project) };
}

async function pluginsOf(run: Run, project: Project): Promise<NativePackages | undefined> {
	const { packages, missing } = await nativePackagesOf(project);
	if (missing !== undefined) {
		run.terminal.note(
			`The bundle goes without its list of native packages, because ${missing} is not installed. Install the dependencies first, and Capstan compares the bundle with what is live.`,
		);
	}
	return packages;
}

/** Electron's client needs a zip; a channel may demand a form. */
function formOf(run: Run, project: Project, wanted: string | undefined): Form {
	const named = text(run.options, "package");
	const form = FORMS.find((each) => each === named);
	if (form !== undefined) return form;
	if (named !== undefined)
		throw usage("invalid_option", `--package must be delta, zip or all; it is "${named}".`, { field: "package" });
	if (project.kind === "electron" || wanted === "zip") return "zip";
	return wanted === undefined || wanted === "delta" ? "delta" : "all";
}
