/**
 * An Android app in a plain JVM: the published Java sources of @capgo/capacitor-updater,
 * unmodified, compiled against the few classes of Android, OkHttp and WorkManager that they use.
 * The compiled classes are kept by what they were made from. A restart is a new process on the same
 * directory.
 */
import { execFile, execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const PACKAGE = fileURLToPath(new URL("../../../node_modules/@capgo/capacitor-updater", import.meta.url));
const SOURCES = join(PACKAGE, "android/src/main/java");
const OURS = fileURLToPath(new URL("./android", import.meta.url));
const KEPT = fileURLToPath(new URL("../../../dist/android-client", import.meta.url));
const DRIVER_CLASS = "ee.forgr.capacitor_updater.Driver";
const OLDEST_JDK = 17;
const TIME_LIMIT_MS = 120_000;

export const CLIENT_VERSION: string = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")).version;

/** `java` and `javac`, which are in one directory. */
interface Jdk {
	/** Empty for those of the PATH. */
	readonly directory: string;
	readonly version: string;
}

let found: { readonly jdk: Jdk | undefined } | undefined;

/**
 * Undefined where there is no JDK that is new enough. Looked up once in each process, because
 * `javac -version` starts a JVM.
 */
export function findJdk(): Jdk | undefined {
	found ??= { jdk: lookUpJdk() };
	return found.jdk;
}

function lookUpJdk(): Jdk | undefined {
	for (const directory of [join(process.env.JAVA_HOME ?? "/nowhere", "bin/"), ""]) {
		try {
			const version = execFileSync(`${directory}javac`, ["-version"], { encoding: "utf8", stdio: "pipe" });
			if (Number(/\d+/.exec(version)?.[0]) >= OLDEST_JDK) return { directory, version };
		} catch {
			// Not there; the next one may be.
		}
	}
	return undefined;
}

let compiled: Promise<string> | undefined;

/** Compiles what has changed since the last run; the directory of the classes. */
async function compile({ directory, version }: Jdk): Promise<string> {
	const hash = createHash("sha256").update(version);
	for (const root of [SOURCES, OURS]) {
		for (const path of readdirSync(root, { recursive: true, encoding: "utf8" }).sort()) {
			if (path.endsWith(".java")) hash.update(path).update(readFileSync(join(root, path)));
		}
	}
	const classes = join(KEPT, hash.digest("hex").slice(0, 16));
	if (existsSync(classes)) return classes;
	const fresh = `${classes}.${process.pid}`;
	await mkdir(fresh, { recursive: true });
	await promisify(execFile)(`${directory}javac`, [
		// The second compiler of the JVM and the threads of its garbage collector cost more than they
		// save here.
		...["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"],
		"--release",
		String(OLDEST_JDK),
		"-encoding",
		"UTF-8",
		"-nowarn",
		"-proc:none",
		"-implicit:class",
		// Whatever the driver reaches is compiled with it; the plugin's bridge to Capacitor is not
		// reached.
		...["-sourcepath", [join(OURS, "shims"), SOURCES].join(":"), "-d", fresh],
		join(OURS, "Driver.java"),
	]);
	try {
		await rename(fresh, classes);
	} catch (error) {
		// Another run was faster, with the same outcome.
		if (!existsSync(classes)) throw error;
		await rm(fresh, { recursive: true });
	}
	return classes;
}

export interface AndroidAppOptions {
	readonly url: string;
	readonly appId: string;
	readonly directory: string;
	readonly deviceId?: string;
	/** Version of the store build. */
	readonly version?: string;
	readonly defaultChannel?: string;
	/** The PEM that encrypted bundles are checked with. */
	readonly publicKey?: string;
	readonly isEmulator?: boolean;
	readonly isProd?: boolean;
	readonly customId?: string;
	/** The package that installed the app, such as com.android.vending. */
	readonly installer?: string;
}

export interface AndroidBundle {
	readonly id: string;
	readonly version: string;
	readonly checksum: string;
	readonly status: "success" | "error" | "pending" | "downloading" | "deleted" | "deleting";
}

export interface ManifestFile {
	readonly file_name: string;
	readonly file_hash: string;
	readonly download_url: string;
}

/** The fields of an answer that the client passes to the app's JavaScript. */
export interface Latest {
	readonly statusCode?: number;
	readonly version?: string;
	readonly url?: string;
	readonly sessionKey?: string;
	readonly checksum?: string;
	readonly manifest?: readonly ManifestFile[];
	readonly error?: string;
	readonly message?: string;
	readonly kind?: string;
}

export interface ChannelAnswer {
	readonly channel?: string;
	readonly status?: string;
	readonly allowSet?: boolean;
	readonly channels?: readonly { id: number; name: string; public: boolean; allow_self_set: boolean }[];
	readonly error?: string;
	readonly message?: string;
}

type Downloadable = Pick<Latest, "version" | "url" | "sessionKey" | "checksum" | "manifest">;
interface DownloadSize {
	readonly totalSize: number;
	readonly knownFiles: number;
	readonly unknownFiles: number;
	readonly files: readonly (ManifestFile & { readonly size?: number; readonly error?: string })[];
}

/** The driver's commands: what each takes and gives. */
interface Commands {
	getLatest: [{ channel?: string }, Latest];
	download: [Downloadable, AndroidBundle];
	downloadInBackground: [Downloadable, null];
	missing: [Downloadable, { missing: ManifestFile[]; total: number; missingCount: number; reusableCount: number }];
	downloadSize: [Downloadable, DownloadSize];
	set: [{ bundle: string }, boolean];
	next: [{ bundle: string }, boolean];
	moveToBackground: [Record<string, never>, boolean];
	ready: [Record<string, never>, null];
	neverReady: [Record<string, never>, null];
	reset: [Record<string, never>, null];
	current: [Record<string, never>, AndroidBundle & { path: string }];
	list: [Record<string, never>, AndroidBundle[]];
	setChannel: [{ channel: string }, ChannelAnswer];
	unsetChannel: [Record<string, never>, ChannelAnswer];
	getChannel: [Record<string, never>, ChannelAnswer];
	listChannels: [Record<string, never>, ChannelAnswer];
	defaultChannel: [Record<string, never>, string];
	sendStats: [{ action: string; version?: string; oldVersion?: string; metadata?: Record<string, string> }, null];
	unzip: [{ file: string; directory: string }, string];
	pendingStats: [Record<string, never>, number];
}

export interface AndroidEvent {
	readonly event: string;
	readonly data?: { readonly version?: string; readonly bundle?: AndroidBundle };
}

export interface AndroidApp {
	ask<Name extends keyof Commands>(name: Name, values?: Commands[Name][0]): Promise<Commands[Name][1]>;
	/** The next event of one of these names. */
	event(...names: string[]): Promise<AndroidEvent>;
	/** The user closes the app. Statistics that were not sent stay for the next start. */
	stop(): Promise<void>;
}

/** Starts the app, as if the user had just opened it. */
export async function startAndroidApp(options: AndroidAppOptions): Promise<AndroidApp> {
	const jdk = findJdk();
	if (jdk === undefined) throw new Error("no JDK");
	compiled ??= compile(jdk);
	const classes = await compiled;
	const { url, version = "1.0.0", ...rest } = options;
	const phone = {
		deviceId: "0b6f3f0e-5d0c-4d3e-9a53-1d1f5b0c7a11",
		...rest,
		updateUrl: `${url}/updates`,
		statsUrl: `${url}/stats`,
		channelUrl: `${url}/channel_self`,
		versionBuild: version,
		versionCode: "1",
		versionOs: "14",
		pluginVersion: CLIENT_VERSION,
	};
	const child = spawn(
		`${jdk.directory}java`,
		[
			"-Xmx192m",
			"-XX:TieredStopAtLevel=1",
			"-XX:+UseSerialGC",
			`-Dnode=${process.execPath}`,
			"-cp",
			classes,
			DRIVER_CLASS,
			JSON.stringify(phone),
		],
		{ stdio: ["pipe", "pipe", "pipe"] },
	);
	const events = new EventEmitter();
	const answers = new Map<number, (line: { result?: unknown; failure?: string }) => void>();
	let log = "";
	child.stderr.on("data", (chunk) => {
		log += chunk;
	});
	createInterface({ input: child.stdout }).on("line", (text) => {
		const line = JSON.parse(text);
		if (line.event === undefined) answers.get(line.id)?.(line);
		else events.emit("event", line);
	});
	// A call to an app that has ended is answered below.
	child.stdin.on("error", () => undefined);
	const ended = once(child, "close").then(([code]) => {
		for (const answer of answers.values()) answer({ failure: "the app has ended" });
		events.emit("event", { event: "ended" });
		return code as number | null;
	});

	const event: AndroidApp["event"] = (...names) =>
		new Promise((resolve, reject) => {
			const end = (settle: () => void) => {
				clearTimeout(timer);
				events.off("event", listener);
				settle();
			};
			const listener = (seen: AndroidEvent) => {
				if (names.includes(seen.event)) end(() => resolve(seen));
				else if (seen.event === "ended") end(() => reject(new Error(`the app ended before ${names}:\n${log}`)));
			};
			const timer = setTimeout(() => end(() => reject(new Error(`no ${names}:\n${log}`))), TIME_LIMIT_MS);
			events.on("event", listener);
		});

	let calls = 0;
	const app: AndroidApp = {
		event,
		ask: (command, values) =>
			new Promise((resolve, reject) => {
				calls += 1;
				const id = calls;
				answers.set(id, ({ result, failure }) => {
					answers.delete(id);
					if (failure === undefined) resolve(result as never);
					else reject(new Error(`${command}: ${failure}\n${log}`));
				});
				child.stdin.write(`${JSON.stringify({ ...values, id, command })}\n`);
			}),
		async stop() {
			child.stdin.end();
			await ended;
		},
	};
	await event("started");
	return app;
}

/**
 * One automatic check of the plugin with its default settings: it downloads the offered bundle and
 * installs it when the app next leaves the foreground. The plugin's code for it needs Capacitor's
 * bridge, so this function repeats the steps.
 */
export async function checkOnItsOwn(app: AndroidApp): Promise<Latest> {
	const latest = await app.ask("getLatest");
	const current = await app.ask("current");
	if (latest.error !== undefined || latest.kind !== undefined) {
		const failed = latest.kind !== "up_to_date" && latest.kind !== "blocked";
		if (failed) await app.ask("sendStats", { action: "download_fail", version: current.version });
		return latest;
	}
	if (latest.version === "builtin") {
		await app.ask("next", { bundle: "builtin" });
		return latest;
	}
	// Throws, as the plugin gives up, when the address is none.
	new URL(latest.url ?? "");
	if (latest.version === current.version) return latest;
	const known = (await app.ask("list")).find((bundle) => bundle.version === latest.version);
	if (known?.status === "error") return latest;
	if (known !== undefined && known.status !== "downloading") {
		await app.ask("next", { bundle: known.id });
		return latest;
	}
	const finished = app.event("setNext", "downloadFailed");
	await app.ask("downloadInBackground", latest);
	await finished;
	return latest;
}
