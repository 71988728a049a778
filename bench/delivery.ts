/**
 * Which share of phones gets an update over bad networks, and how many bytes they load: the
 * published Android client's own download code against the product, as a zip, as single files, and
 * as single files with the zip after two failed attempts. Each phone has the same network in all
 * three, and runs the release before. It checks a few times, as an app does that is opened now and
 * then.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { serveCapstan } from "../src/operator/serve";
import { type AndroidApp, checkOnItsOwn, findJdk, startAndroidApp } from "../test/proof/clients/android-client";
import { type CliProject, createCliProject } from "../test/proof/clients/capgo-cli";
import { type LossyNetwork, seeded, startLossyNetwork } from "./lossy-network";

export interface DeliveryEffort {
	readonly phones: number;
	/** Update checks of each phone. */
	readonly checks: number;
}

export const FULL_DELIVERY: DeliveryEffort = { phones: 20, checks: 4 };
export const QUICK_DELIVERY: DeliveryEffort = { phones: 12, checks: 4 };

const FORMS = {
	zip: { title: "zip", updatePackage: "zip", hidesFailedFiles: false },
	delta: { title: "single files", updatePackage: "delta", hidesFailedFiles: true },
	fallback: { title: "single files, and the zip after two failures", updatePackage: "all", hidesFailedFiles: false },
} as const;
type Form = keyof typeof FORMS;

export interface DeliveryFigures {
	readonly form: Form;
	readonly phones: number;
	readonly delivered: number;
	/** Sum over all phones, updated or not. */
	readonly receivedBytes: number;
}

export interface DeliveryResult {
	readonly effort: DeliveryEffort;
	readonly zipBytes: number;
	readonly forms: readonly DeliveryFigures[];
}

const APP_ID = "com.example.delivery";
/** Channels that serve the release before, and the new one. */
const [BEFORE, AFTER] = ["before", "production"];
const FILES = 60;
const FILE_BYTES = 250_000;
/** Files that differ between the two releases. */
const CHANGED = [7, 23, 41];
/** Some networks damage it. */
const FILTERED_FILE = "asset-23.js";
const PHONES_AT_ONCE = 3;
/** Longest time that the app is open for a check; the downloads take a second. */
const CHECK_LIMIT_MS = 20_000;
/** Goal: share of phones that get files, or the zip after two failures. */
const GOAL_SHARE = 0.95;

/** Undefined without a JDK. */
export async function measureDelivery(
	effort: DeliveryEffort,
	signal: AbortSignal,
	say: (text: string) => void,
): Promise<DeliveryResult | undefined> {
	if (findJdk() === undefined) return undefined;
	const directory = await mkdtemp(join(tmpdir(), "capstan-delivery-"));
	const running = await serveCapstan({
		stateDirectory: join(directory, "state"),
		port: 0,
		diagnostics: false,
		unlimitedRequests: true,
	});
	const api = async (method: string, path: string, body?: unknown) => {
		const response = await fetch(`${running.url}${path}`, {
			method,
			headers: { authorization: running.adminKey ?? "", "content-type": "application/json" },
			...(body === undefined ? {} : { body: JSON.stringify(body) }),
		});
		const text = await response.text();
		if (!response.ok) throw new Error(`${method} ${path}: ${text}`);
		return JSON.parse(text);
	};
	try {
		const [organization] = await api("GET", "/organization");
		await api("POST", "/app", { app_id: APP_ID, name: APP_ID, owner_org: organization.id });
		await api("POST", "/channel", { app_id: APP_ID, channel: BEFORE, allow_device_self_set: true });
		await api("POST", "/channel", { app_id: APP_ID, channel: AFTER, public: true });
		const project = await createCliProject(directory, running.url, APP_ID);
		for (const [channel, version] of [
			[BEFORE, "1.0.1"],
			[AFTER, "1.0.2"],
		] as const) {
			say(`uploading ${version}`);
			await writeFiles(project, version);
			await upload(project, running.adminKey ?? "", channel, version);
		}
		const bundles = (await api("GET", `/bundle?app_id=${APP_ID}`)) as { name: string; size: number }[];
		const forms: DeliveryFigures[] = [];
		for (const form of Object.keys(FORMS) as Form[]) {
			const { title, updatePackage, hidesFailedFiles } = FORMS[form];
			await api("POST", "/channel", { app_id: APP_ID, channel: AFTER, updatePackage });
			const waiting = Array.from({ length: effort.phones }, (_, index) => index);
			let [delivered, receivedBytes, done] = [0, 0, 0];
			const updateNext = async (): Promise<void> => {
				const index = waiting.shift();
				if (index === undefined) return;
				signal.throwIfAborted();
				const network = await startLossyNetwork(running.url, index, FILTERED_FILE);
				network.hidesFailedFiles = hidesFailedFiles;
				const home = await mkdtemp(join(directory, "phone-"));
				try {
					if (await updates(network, { directory: home, deviceId: deviceOf(form, index) }, effort.checks))
						delivered += 1;
				} finally {
					await network.stop();
					await rm(home, { recursive: true, force: true, maxRetries: 5 });
				}
				receivedBytes += network.receivedBytes;
				done += 1;
				say(`${title}: ${done} of ${effort.phones} phones, ${delivered} updated`);
				return updateNext();
			};
			await Promise.all(Array.from({ length: PHONES_AT_ONCE }, updateNext));
			forms.push({ form, phones: effort.phones, delivered, receivedBytes });
		}
		const zipBytes = bundles.find(({ name }) => name === "1.0.2")?.size ?? 0;
		return { effort, zipBytes, forms };
	} finally {
		await running.stop();
		await rm(directory, { recursive: true, force: true, maxRetries: 5 });
	}
}

const deviceOf = (form: Form, index: number) =>
	`${String(Object.keys(FORMS).indexOf(form) + 1).padStart(8, "0")}-0000-4000-8000-${String(index).padStart(12, "0")}`;

/**
 * Installs the release before over a good network, then checks over the bad one; whether the phone
 * runs the new release at the end.
 */
async function updates(
	network: LossyNetwork,
	phone: { readonly directory: string; readonly deviceId: string },
	checks: number,
): Promise<boolean> {
	const open = () => startAndroidApp({ ...phone, url: network.url, appId: APP_ID });
	let app = await open();
	try {
		const { id } = await app.ask("download", await app.ask("getLatest", { channel: BEFORE }));
		await app.ask("set", { bundle: id });
		await app.ask("ready");
		const { version } = await app.ask("current");
		if (version !== "1.0.1") throw new Error(`the phone runs ${version} instead of the release before`);
		network.startLosing();
		for (let check = 0; check < checks; check++) {
			const ended = await Promise.race([checked(app), setTimeout(CHECK_LIMIT_MS, "too long" as const)]);
			if (ended === "installed") return true;
			if (ended === "failed") continue;
			// The person closes the app, and opens it again later.
			await app.stop();
			app = await open();
		}
		return false;
	} finally {
		await app.stop();
	}
}

async function checked(app: AndroidApp): Promise<"installed" | "failed"> {
	try {
		await checkOnItsOwn(app);
		await app.ask("moveToBackground");
		return (await app.ask("current")).version === "1.0.2" ? "installed" : "failed";
	} catch {
		// The client itself gave up, or the app was closed.
		return "failed";
	}
}

/** Files that compress as scripts do, the same in both releases except for the changed ones. */
async function writeFiles(project: CliProject, version: string): Promise<void> {
	for (let index = 0; index < FILES; index++) {
		const isChanged = CHANGED.includes(index);
		const random = seeded(index + (isChanged && version === "1.0.2" ? 1_000 : 0));
		let text = "";
		while (text.length < FILE_BYTES) text += `const v${Math.floor(random() * 1e9)}=${Math.floor(random() * 1e9)};\n`;
		await project.write(`asset-${index}.js`, text);
	}
	await project.write("app.js", `CapacitorUpdater.notifyAppReady(); // ${version}`);
}

async function upload(project: CliProject, key: string, channel: string, version: string): Promise<void> {
	const words = ["bundle", "upload", APP_ID, "--channel", channel, "--apikey", key, "--bundle", version, "--delta"];
	const { code, output } = await project.run(...words);
	if (code !== 0) throw new Error(output);
}

export function deliveryLines({ effort, zipBytes, forms }: DeliveryResult): string[] {
	const shareOf = (form: Form) => {
		const of = forms.find((figures) => figures.form === form);
		return of === undefined ? 0 : of.delivered / of.phones;
	};
	const isMet = shareOf("fallback") >= GOAL_SHARE;
	return [
		`Phones that run the new release after at most ${effort.checks} checks over bad networks, each with the same network in all rows. The zip has ${kilobytes(zipBytes)}. Goal: ${percent(GOAL_SHARE)} with the zip after two failures: ${percent(shareOf("fallback"))}, ${isMet ? "met" : "**missed**"}.`,
		"",
		"| offered | phones | updated | share | loaded per phone |",
		"|---|--:|--:|--:|--:|",
		...forms.map(
			({ form, phones, delivered, receivedBytes }) =>
				`| ${FORMS[form].title} | ${phones} | ${delivered} | ${percent(delivered / phones)} | ${kilobytes(receivedBytes / phones)} |`,
		),
	];
}

const percent = (share: number) => `${Math.round(share * 100)} %`;
const kilobytes = (bytes: number) => `${Math.round(bytes / 1000)} kB`;
