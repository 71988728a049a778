/**
 * The counts behind the price of a check (cost-model.ts), measured: a scripted fleet uses the built
 * Worker with its Queue, consumer, D1 and R2, and a counting copy counts. A restarted process is an
 * isolate that has seen nothing; its clock can be moved by days.
 */

import { createHash, randomUUID } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { DAY_MS } from "../src/domain/time";
import type { WorkerModules } from "../src/operator/build";
import { URGENT_INSTALLS_AN_HOUR } from "../src/queue/urgency";
import { batchSeconds, type CapstanFacts, capstan } from "./capstan";
import type { CostCounts, Rows, Update } from "./cost-model";
import { COUNTS_PATH, type Counts } from "./counts";
import { type RunningWorker, startWorker } from "./runtime";
import { deviceId } from "./scenarios";

/** Devices of two batches. The difference is what one more device costs. */
const LARGE = 40;
const SMALL = 20;
/** Checks so close that no pause ends the buffer. */
const STEADY_MS = 5_000;
const LONGEST_WAIT_MS = 10 * 60_000;
const CPU_CHECKS = 1_000;
const DELTA_FILES = 100;
/** Devices whose rows are weighed. Their ids are random, so that pages are as full as real ones. */
const WEIGHED = 3_000;
const POLL_MS = 200;
/** A last event waits 20 seconds, and the runtime ends work after an answer at 30 s. */
const LONGEST_WINDOW_MS = 35_000;
/** The consumer's batch timeout and its work. */
const CONSUMER_MS = 3_500;
const JSON_TYPE = { "content-type": "application/json" };
/** Reports of the stock plugin about an update. */
const ACTIONS = {
	zip: ["download_zip_start", "download_complete", "set"],
	delta: ["download_manifest_start", "download_complete", "set"],
};

interface Answer {
	readonly version?: string;
	readonly url?: string;
	readonly manifest?: readonly { readonly download_url: string }[];
}

export async function measureCost(
	script: WorkerModules,
	signal: AbortSignal,
	say: (text: string) => void,
): Promise<CostCounts> {
	const worker = await startWorker(capstan(script, { bundles: 2, freshApps: 2 }));
	try {
		return await new CostRun(worker, signal, say).measure();
	} finally {
		await worker.stop();
	}
}

class CostRun {
	private clockMs = 0;
	private windowMs = 1_000;

	constructor(
		private readonly worker: RunningWorker<CapstanFacts>,
		private readonly signal: AbortSignal,
		private readonly say: (text: string) => void,
	) {}

	async measure(): Promise<CostCounts> {
		const { worker } = this;
		await this.addChannels();
		await this.settle();

		this.say("buffers");
		const pauseSeconds = await this.windowOf(() => this.check(9_000, {}));
		this.windowMs = pauseSeconds * 1_000;
		await this.settle();
		const urgentSeconds = await this.windowOf(() => this.report(9_000, "set", {}));
		await this.settle();
		const longestSeconds = await this.longestWindow();
		await this.settle();

		this.say("devices");
		const check = async (device: number) => void (await this.check(device, {}));
		await this.warm();
		const firstEver = await this.fitted((devices) => this.each(devices, check));
		await this.anotherIsolate();
		const before = await this.worker.counts();
		const noNews = await this.fitted((devices) => this.each(devices, check));
		const isolateReports = (await this.worker.counts()).queueMessages > before.queueMessages;
		this.clockMs += DAY_MS;
		await this.anotherIsolate();
		const returning = await this.fitted((devices) => this.each(devices, check));

		this.say("storage");
		const { deviceBytes, updateBytes } = await this.bytes();

		this.say("updates");
		const zip = await this.updateOf("zip", "1.0.1", "builtin", { defaultChannel: "zip" });
		const delta = await this.updateOf("delta", "1.1.0", worker.facts.newestVersion, { defaultChannel: "delta" });

		this.say("questions");
		const { question, sharesQuestions } = await this.questions();
		await worker.restart();
		await this.moveClock();
		await this.check(0, {});
		// A restarted process counts from zero.
		const cold = await worker.counts();
		await this.settle();

		this.say("clean-up");
		await worker.runScheduled();
		const cleanUp = await this.counted(() => worker.runScheduled());

		this.say("CPU");
		await this.warm();
		const [logsBefore, cpuBefore] = [(await worker.counts()).logLines, await worker.cpuMs()];
		for (let check = 0; check < CPU_CHECKS; check += 1) await this.check(check % LARGE, {});
		const [logsAfter, cpuAfter] = [(await worker.counts()).logLines, await worker.cpuMs()];
		return {
			checkCpuMs: round(((cpuAfter ?? Number.NaN) - (cpuBefore ?? Number.NaN)) / CPU_CHECKS),
			pauseSeconds,
			longestSeconds,
			urgentSeconds,
			batchSeconds: batchSeconds(),
			isolateReports,
			urgentPerHour: URGENT_INSTALLS_AN_HOUR,
			deviceBytes,
			updateBytes,
			firstEver: firstEver.each,
			returning: returning.each,
			noNews: noNews.each,
			checkBatch: returning.batch,
			zip,
			delta,
			deltaFiles: DELTA_FILES,
			question,
			sharesQuestions,
			cold: { ...rowsOf(cold), r2ClassA: cold.r2ClassA, r2ClassB: cold.r2ClassB },
			cleanUp: { ...rowsOf(cleanUp), r2ClassA: cleanUp.r2ClassA },
			logLinesPerCheck: (logsAfter - logsBefore) / CPU_CHECKS,
		};
	}

	private async ask(path: string, body: unknown, key?: string): Promise<unknown> {
		this.signal.throwIfAborted();
		const response = await fetch(this.worker.origin + path, {
			method: "POST",
			headers: { ...JSON_TYPE, ...(key === undefined ? {} : { authorization: key }) },
			body: JSON.stringify(body),
		});
		if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${await response.text()}`);
		return response.json();
	}

	private device(device: number, more: object): object {
		const { appId, newestVersion } = this.worker.facts;
		return {
			app_id: appId,
			device_id: deviceId(100_000 + device),
			version_name: newestVersion,
			version_build: "1.0.0",
			version_os: "18.2",
			version_code: "100",
			platform: "ios",
			plugin_version: "8.51.23",
			is_emulator: false,
			is_prod: true,
			defaultChannel: "",
			...more,
		};
	}

	private async check(device: number, more: object): Promise<Answer> {
		return (await this.ask("/updates", this.device(device, more))) as Answer;
	}

	private async report(device: number, action: string, more: object, laterMs = 0): Promise<void> {
		const timestamp = Math.round(Date.now() + this.clockMs + laterMs);
		await this.ask("/stats", { ...this.device(device, more), action, timestamp });
	}

	/** Until buffers are sent and consumed. */
	private async settle(): Promise<void> {
		await wait(this.windowMs + CONSUMER_MS, undefined, { signal: this.signal });
	}

	/** Loads the app into memory, with a device that no case uses. */
	private async warm(): Promise<void> {
		await this.check(8_000, {});
		await this.settle();
		await this.check(8_000, {});
	}

	private async moveClock(): Promise<void> {
		await fetch(`${this.worker.origin}${COUNTS_PATH}?clock=${this.clockMs}`);
	}

	private async anotherIsolate(): Promise<void> {
		await this.settle();
		await this.worker.restart();
		await this.moveClock();
		await this.warm();
	}

	/** Counts of the work and of what follows from it. */
	private async counted(work: () => Promise<unknown>): Promise<Counts> {
		const before = await this.worker.counts();
		await work();
		await this.settle();
		const after = await this.worker.counts();
		const names = Object.keys(after) as (keyof Counts)[];
		return Object.fromEntries(names.map((name) => [name, after[name] - before[name]])) as unknown as Counts;
	}

	private async each(devices: readonly number[], work: (device: number) => Promise<void>): Promise<void> {
		for (const device of devices) await work(device);
	}

	/** The rows that one device adds to a batch, and those of the batch itself. */
	private async fitted(
		work: (devices: readonly number[]) => Promise<void>,
		[large, small] = [LARGE, SMALL],
	): Promise<{ readonly each: Rows; readonly batch: Rows }> {
		const numbers = (first: number, count: number) => Array.from({ length: count }, (_, index) => first + index);
		const many = rowsOf(await this.counted(() => work(numbers(0, large))));
		const few = rowsOf(await this.counted(() => work(numbers(large, small))));
		const each = (name: keyof Rows) => Math.max(0, round((many[name] - few[name]) / (large - small)));
		const own = (name: keyof Rows) => Math.max(0, round(many[name] - large * each(name)));
		return {
			each: { d1RowsRead: each("d1RowsRead"), d1RowsWritten: each("d1RowsWritten") },
			batch: { d1RowsRead: own("d1RowsRead"), d1RowsWritten: own("d1RowsWritten") },
		};
	}

	/** Growth of the databases by a device that checks, and by its update. */
	private async bytes(): Promise<{ readonly deviceBytes: number; readonly updateBytes: number }> {
		const devices = Array.from({ length: WEIGHED }, () => ({ device_id: randomUUID() }));
		const grown = async (work: (device: object) => Promise<unknown>) => {
			const { d1Bytes } = await this.counted(async () => {
				for (const device of devices) await work(device);
				// As many messages and batches as there may be.
				for (let batch = 0; batch < 3; batch += 1) await this.settle();
			});
			return Math.round(d1Bytes / WEIGHED);
		};
		return {
			deviceBytes: await grown((device) => this.check(0, device)),
			updateBytes: await grown(async (device) => {
				const installed = { ...device, version_name: "1.0.1", old_version_name: this.worker.facts.newestVersion };
				for (const action of ACTIONS.zip) await this.report(0, action, installed);
			}),
		};
	}

	/** Seconds until a message leaves although checks keep coming. */
	private async longestWindow(): Promise<number> {
		const before = (await this.worker.counts()).queueMessages;
		const startMs = Date.now();
		for (let device = 9_100; Date.now() - startMs < LONGEST_WAIT_MS; device += 1) {
			await this.check(device, {});
			for (let waitedMs = 0; waitedMs < STEADY_MS; waitedMs += 1_000) {
				await wait(1_000, undefined, { signal: this.signal });
				if ((await this.worker.counts()).queueMessages > before) return Math.round((Date.now() - startMs) / 1_000);
			}
		}
		throw new Error("steady checks did not become a message");
	}

	/** Seconds until the event of `send` becomes a message. */
	private async windowOf(send: () => Promise<unknown>): Promise<number> {
		const before = (await this.worker.counts()).queueMessages;
		const startMs = Date.now();
		await send();
		while (Date.now() - startMs < LONGEST_WINDOW_MS) {
			if ((await this.worker.counts()).queueMessages > before) return Math.round((Date.now() - startMs) / 1_000);
			await wait(POLL_MS, undefined, { signal: this.signal });
		}
		throw new Error("an event did not become a message");
	}

	private async download(answer: Answer): Promise<number> {
		const links = answer.manifest?.map(({ download_url }) => download_url) ?? [answer.url ?? ""];
		for (const link of links) {
			const { pathname, search } = new URL(link);
			const response = await fetch(this.worker.origin + pathname + search);
			if (!response.ok) throw new Error(`GET ${pathname}: ${response.status}`);
			await response.arrayBuffer();
		}
		return links.length;
	}

	/**
	 * Known devices on `old` get `target` and download it. Later they install it, which stock apps do
	 * at the next start, and check with it. Two batches of the Queue write it.
	 */
	private async updateOf(form: "zip" | "delta", target: string, old: string, more: object): Promise<Update> {
		const sizes: [number, number] = [LARGE / 4, SMALL / 4];
		const before = { ...more, version_name: old };
		const after = { ...more, version_name: target };
		for (let device = 0; device < sizes[0] + sizes[1]; device += 1) await this.check(device, before);
		await this.settle();
		const offered = await this.check(0, before);
		if (offered.version !== target || (offered.url === undefined && offered.manifest === undefined))
			throw new Error(`${form}: not offered: ${JSON.stringify(offered).slice(0, 200)}`);
		const first = await this.counted(() => this.download(offered));
		const [cpuBefore, countsBefore] = [await this.worker.cpuMs(), await this.worker.counts()];
		let downloads = 0;
		const { each, batch } = await this.fitted(async (devices) => {
			await this.each(devices, async (device) => {
				downloads += await this.download(offered);
				// Each device has another install time, and so another bucket of the histogram.
				const [start = "", ...others] = ACTIONS[form].slice(0, -1);
				await this.report(device, start, { ...after, old_version_name: old }, -1_000 * 1.3 ** device);
				for (const action of others) await this.report(device, action, { ...after, old_version_name: old });
			});
			await this.settle();
			await this.each(devices, async (device) => {
				await this.report(device, ACTIONS[form].at(-1) ?? "", { ...after, old_version_name: old });
				await this.check(device, after);
			});
		}, sizes);
		const [cpuAfter, countsAfter] = [await this.worker.cpuMs(), await this.worker.counts()];
		const updates = sizes[0] + sizes[1];
		return {
			...each,
			batch,
			downloads: downloads / updates,
			reports: ACTIONS[form].length,
			r2ClassB: first.r2ClassB,
			r2ClassBAgain: (countsAfter.r2ClassB - countsBefore.r2ClassB) / updates,
			cpuMs: round(((cpuAfter ?? Number.NaN) - (cpuBefore ?? Number.NaN)) / updates),
		};
	}

	/** The database is asked again after two seconds: once for all apps, or for each app. */
	private async questions(): Promise<{ readonly question: Rows; readonly sharesQuestions: boolean }> {
		const { freshApps } = this.worker.facts;
		const apps = [1, 2].map((number) => ({ app_id: `${freshApps.prefix}${number}` }));
		for (const app of apps) await this.check(7_000, app);
		await this.settle();
		// Nothing is left to send: the devices were reported.
		await wait(2_500, undefined, { signal: this.signal });
		const before = await this.worker.counts();
		for (const app of apps) await this.check(7_000, app);
		await wait(500, undefined, { signal: this.signal });
		const after = await this.worker.counts();
		const trips = Math.max(1, after.d1Trips - before.d1Trips);
		const read = (after.d1RowsRead - before.d1RowsRead) / trips;
		return { question: { d1RowsRead: read, d1RowsWritten: 0 }, sharesQuestions: trips < apps.length };
	}

	/** A channel with the uploaded zip, and one with a bundle of many files. */
	private async addChannels(): Promise<void> {
		const { appId, key } = this.worker.facts;
		const organizations = await fetch(`${this.worker.origin}/organization`, { headers: { authorization: key } });
		const [{ id = "" } = {}] = (await organizations.json()) as { id?: string }[];
		await this.ask("/bundle", { app_id: appId, version: "1.1.0" }, key);
		const manifest = [];
		for (let file = 0; file < DELTA_FILES; file += 1) {
			const content = `export const file = ${file};\n`.repeat(50);
			const hash = createHash("sha256").update(content).digest("hex");
			const path = `orgs/${id}/apps/${appId}/delta/${hash}_file-${file}.js`;
			await this.store(path, content, key);
			manifest.push({ file_name: file === 0 ? "index.html" : `file-${file}.js`, s3_path: path, file_hash: hash });
		}
		await this.ask("/private/set_manifest", { app_id: appId, name: "1.1.0", manifest }, key);
		await this.ask("/private/finalize_bundle_upload", { app_id: appId, name: "1.1.0" }, key);
		for (const [channel, version] of [
			["zip", "1.0.1"],
			["delta", "1.1.0"],
		]) {
			await this.ask("/channel", { app_id: appId, channel, version, allow_device_self_set: true }, key);
		}
	}

	private async store(path: string, content: string, key: string): Promise<void> {
		const tus = { "tus-resumable": "1.0.0", authorization: key };
		const created = await fetch(`${this.worker.origin}/files/upload/attachments`, {
			method: "POST",
			headers: { ...tus, "upload-length": String(content.length), "upload-metadata": `filename ${btoa(path)}` },
		});
		const location = new URL(created.headers.get("location") ?? "", this.worker.origin);
		const sent = await fetch(this.worker.origin + location.pathname, {
			method: "PATCH",
			headers: { ...tus, "upload-offset": "0", "content-type": "application/offset+octet-stream" },
			body: content,
		});
		if (sent.status !== 204) throw new Error(`upload of a file: ${sent.status} ${await sent.text()}`);
	}
}

const round = (value: number) => Number(value.toFixed(3));
const rowsOf = ({ d1RowsRead, d1RowsWritten }: Counts): Rows => ({
	d1RowsRead: round(d1RowsRead),
	d1RowsWritten: round(d1RowsWritten),
});
