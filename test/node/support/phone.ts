/**
 * Phones with the published Android client on a network that a test can break: each has a separate
 * app with a public channel "production". Without a JDK the tests are skipped, and a line reports
 * why.
 */
import { mkdtemp, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect } from "vitest";
import {
	type AndroidApp,
	type AndroidAppOptions,
	CLIENT_VERSION,
	findJdk,
	startAndroidApp,
} from "../../proof/clients/android-client";
import { type CliProject, createCliProject } from "../../proof/clients/capgo-cli";
import { type RecordedRequest, type Recorder, startRecorder } from "../../proof/clients/recorder";
import { createProductApp, type Product, uploadProductBundle } from "./product";

const hasJdk = findJdk() !== undefined;
if (!hasJdk) {
	// Past the reporter, which shows a skipped file without a reason.
	process.stderr.write("\nThe Android client is skipped: it needs javac 17 or newer, in JAVA_HOME or on the PATH.\n\n");
}

/** Tests of the Android client. */
export function describeAndroid(what: string, tests: () => void): void {
	describe.skipIf(!hasJdk)(`@capgo/capacitor-updater ${CLIENT_VERSION} on Android, ${what}`, tests);
}

export interface Scene {
	readonly appId: string;
	/** The network between the phone and the product. */
	readonly network: Recorder;
	/** Opens the app on the phone, and closes it before if it is open. */
	open(options?: Partial<AndroidAppOptions>): Promise<AndroidApp>;
	setVersion(version: string | null, channel?: string): Promise<unknown>;
	/** Downloads of bundles and their files that the phone has asked for. */
	downloads(): readonly RecordedRequest[];
	/** Actions that the phone has reported, each once. */
	reported(): readonly string[];
}

export interface Phones {
	newApp(channel?: Record<string, unknown>): Promise<Scene>;
	/** An app whose public channel has one bundle, uploaded through the API. */
	published(version: string, channel?: Record<string, unknown>): Promise<Scene>;
	/** A web build that the stock CLI uploads to the public channel. */
	newProject(scene: Scene): Promise<{ readonly cli: CliProject; upload(...words: string[]): Promise<void> }>;
	/** Closes every app and takes the networks down. */
	closeAll(): Promise<void>;
}

export function createPhones(product: Product): Phones {
	const running: { stop(): Promise<void> }[] = [];

	async function newApp(channel: Record<string, unknown> = {}): Promise<Scene> {
		const appId = product.newAppId();
		await createProductApp(product, appId);
		await product.api("POST", "/channel", { app_id: appId, channel: "production", public: true, ...channel });
		const directory = await mkdtemp(join(product.directory, "phone-"));
		const network = await startRecorder(product.url);
		running.push(network);
		let opened: AndroidApp | undefined;
		return {
			appId,
			network,
			async open(options = {}) {
				await opened?.stop();
				opened = await startAndroidApp({ url: network.url, appId, directory, ...options });
				running.push(opened);
				return opened;
			},
			setVersion: (version, name = "production") =>
				product.api("POST", "/channel", { app_id: appId, channel: name, version }),
			downloads: () => network.requests.filter(({ path }) => path.startsWith("/files/download/")),
			reported: () => [...new Set(eventsOf(network).map(({ action }) => action))],
		};
	}

	return {
		newApp,
		async published(version, channel) {
			const scene = await newApp(channel);
			await uploadProductBundle(product, scene.appId, version);
			await scene.setVersion(version);
			return scene;
		},
		async newProject({ appId }) {
			const cli = await createCliProject(product.directory, product.url, appId);
			return {
				cli,
				async upload(...words) {
					const { code, output } = await cli.run(
						"bundle",
						"upload",
						appId,
						"--channel",
						"production",
						"--apikey",
						product.adminKey,
						...words,
					);
					expect(code, output).toBe(0);
				},
			};
		},
		async closeAll() {
			for (const each of running.splice(0).reverse()) await each.stop();
		},
	};
}

export interface ReportedEvent {
	readonly action: string;
	readonly version_name?: string;
	readonly old_version_name: string;
	/** Only of events that went through the client's queue. */
	readonly timestamp?: number;
	readonly metadata?: Record<string, string>;
}

/** Every report of the phone, single or in a batch, including repetitions. */
export function eventsOf(network: Recorder): ReportedEvent[] {
	return network.requests
		.filter(({ path }) => path === "/stats")
		.flatMap(({ body }) => [JSON.parse(body)].flat() as ReportedEvent[]);
}

/** The page that the phone shows. */
export async function pageOf(app: AndroidApp): Promise<string> {
	return readFile(join((await app.ask("current")).path, "index.html"), "utf8");
}
