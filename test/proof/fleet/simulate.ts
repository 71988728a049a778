/**
 * The days of a fleet: operators work, devices check, some join and some leave. The Worker's clock
 * jumps from one time of the day to the next while no request is in progress, and each phone's
 * requests arrive at a moment that is known to the millisecond.
 */
import { DAY_MS, HOUR_MS } from "../../../src/domain/time";
import { AppWorld, type Platform } from "./app-world";
import type { ControlState } from "./control";
import { BETA, openShop, workDay } from "./operators";
import { newPhone, type Phone, reinstalled, updateFromStore } from "./phone";
import { type SimulatedProduct, startSimulatedProduct } from "./product";
import { below, draw, happens, oneOf, type Stream, streamOf } from "./random";
import { openApp } from "./session";
import { SignalRollouts } from "./signals";
import { StagedRollouts } from "./staged";

export interface FleetOptions {
	readonly devices: number;
	readonly days: number;
	readonly seed: number;
	/** Share of the Queue's batches that get a fault. */
	readonly faultShare: number;
	/** Made-up devices of a stranger, in four days or more. */
	readonly attack: number;
	/**
	 * Devices of an app whose rollouts are judged by health signals, in four days or more; 0: none.
	 */
	readonly signals: number;
}

export interface Fleet {
	readonly product: SimulatedProduct;
	readonly apps: readonly AppWorld[];
	readonly staged: StagedRollouts | undefined;
	readonly signals: SignalRollouts | undefined;
	readonly firstDay: number;
	readonly lastDay: number;
	readonly sessions: number;
	readonly queue: ControlState;
	readonly tookMs: number;
}

/** Devices of the app with automatic rollouts; one percent of them must be a few. */
const STAGED_SHARE = 0.4;
const LEAST_STAGED = 500;
const MOST_STAGED = 4_000;
/** Fewer days do not contain every event. */
const STAGED_DAYS = 4;
/** The phones of a wave check last, and broken ones check once more. */
const WAVE_MS = 5 * 60 * 1000;
const AGAIN_MS = 20 * 60 * 1000;
/** Two weeks before the leap day. */
const FIRST_DAY = Date.UTC(2028, 1, 15) / DAY_MS;
/** Times of the waves; some of the last sessions end on the next day. */
const TIMES_MS = [0, 8 * HOUR_MS, 14 * HOUR_MS, 23.25 * HOUR_MS];
/** After the last wave, for the nightly clean-up. */
const NIGHT_MS = 24 * HOUR_MS - 1_000;
const CONNECTIONS = 12;
/** A smaller fleet would fit into a few messages of the Queue. */
const LARGE_FLEET = 1_000;
const SMALL_WAIT_SHARE = 0.03;
const BETWEEN_SESSIONS_MS = 300;
/** Messages in flight at which the simulation waits. */
const MOST_BEHIND = 200;
/**
 * Share of the fleet that exists from the first day; the others join within the first two thirds.
 */
const FOUNDERS = 0.6;
const REINSTALLS_A_DAY = 0.004;
const STORE_UPDATE_DAYS = 11;

/**
 * Shares of three apps, two of one organization and one of another; the first has most of the
 * devices.
 */
const APPS = [
	{ name: "com.example.fleet.one", share: 0.7, platforms: ["ios", "android", "android", "electron"] },
	{ name: "com.example.fleet.two", share: 0.2, platforms: ["android", "ios"] },
	{ name: "com.example.fleet.other", share: 0.1, platforms: ["android", "electron"] },
] as const satisfies readonly { name: string; share: number; platforms: readonly Platform[] }[];

/** @param say progress, for a person who waits */
export async function simulate(options: FleetOptions, say: (text: string) => void): Promise<Fleet> {
	const startMs = performance.now();
	say("starting the product");
	const product = await startSimulatedProduct(CONNECTIONS);
	try {
		return await live(product, options, say, startMs);
	} catch (error) {
		await product.stop();
		throw error;
	}
}

async function live(
	product: SimulatedProduct,
	{ devices, days, seed, faultShare, attack, signals: signalling }: FleetOptions,
	say: (text: string) => void,
	startMs: number,
): Promise<Fleet> {
	const chance = streamOf(seed, 1);
	const waitShare = devices < LARGE_FLEET ? SMALL_WAIT_SHARE : 1;
	await product.control({ nowMs: FIRST_DAY * DAY_MS, seed, faultShare, waitShare });
	const apps = await makeApps(product, chance);
	const staged = days < STAGED_DAYS ? undefined : await openStaged(product, apps, { seed, devices, days, attack });
	const signals =
		days < STAGED_DAYS || signalling === 0
			? undefined
			: await SignalRollouts.open(product, "com.example.fleet.signals", apps.at(-1)?.orgId ?? "", {
					chance: streamOf(seed, 3),
					devices: signalling,
					days,
				});
	const stories = [staged, signals].filter((story) => story !== undefined);
	for (const story of stories) apps.push(story.app);
	const phones: Phone[] = [];
	const founders = Math.ceil(devices * FOUNDERS);
	const joiningDays = Math.max(1, Math.floor((days * 2) / 3));
	let sessions = 0;
	for (let day = 0; day < days; day += 1) {
		const dayMs = (FIRST_DAY + day) * DAY_MS;
		const wanted = Math.min(devices, founders + Math.ceil(((devices - founders) * day) / joiningDays));
		while (phones.length < wanted) phones.push(joining(chance, apps, day, days));
		const opened = whoOpens(phones, day, days);
		for (const [index, timeMs] of TIMES_MS.entries()) {
			const nowMs = dayMs + timeMs;
			await product.control({ nowMs });
			if (day > 0 && index === 1)
				for (const app of apps)
					if (!stories.some((story) => story.app === app)) await workDay(app, chance, day, phones);
			const running = stories.filter(({ isUnderWay }) => isUnderWay);
			if (running.length > 0) await product.runScheduled();
			const wave: Phone[] = [];
			for (const story of running) wave.push(...(await story.turn(nowMs)));
			const starting = [...startsOf(opened[index] ?? [], nowMs), ...startsOf(wave, nowMs + WAVE_MS)];
			sessions += starting.length;
			const open = ({ phone, startMs }: Start) =>
				openApp(phone, { http: product.http, nowMs: startMs, betaName: BETA });
			await inParallel(starting, CONNECTIONS, open);
			const again = wave.filter(({ broken, troubles }) => broken || troubles.length > 0);
			sessions += again.length;
			await inParallel(startsOf(again, nowMs + AGAIN_MS), CONNECTIONS, open);
			// The next wave is judged by the reports that arrived before it.
			if (wave.length > 0) await product.rest();
			const { sent, done } = await product.control({});
			if (sent - done > MOST_BEHIND) await product.rest();
			const perSecond = Math.round((product.http.requests / (performance.now() - startMs)) * 1000);
			say(`day ${day + 1}/${days}, ${phones.length} devices, ${product.http.requests} requests, ${perSecond} a second`);
		}
		// The version of a device is not exact if all messages of a day arrive after those of the next
		// day.
		await product.rest();
		await product.control({ nowMs: dayMs + NIGHT_MS });
		await product.runScheduled();
		for (const app of apps) app.endDay(FIRST_DAY + day);
	}
	say("waiting for the Queue");
	const queue = await product.rest();
	const lastDay = FIRST_DAY + days - 1;
	const tookMs = performance.now() - startMs;
	return { product, apps, staged, signals, firstDay: FIRST_DAY, lastDay, sessions, queue, tookMs };
}

async function makeApps(product: SimulatedProduct, chance: Stream): Promise<AppWorld[]> {
	const [{ id: first }] = await product.api("GET", "/organization");
	const { id: second } = await product.api("POST", "/organization", { orgId: first, name: "Another organization" });
	const apps: AppWorld[] = [];
	for (const [index, { name }] of APPS.entries()) {
		const app = await AppWorld.create(product, name, index < 2 ? first : second);
		await openShop(app, chance);
		apps.push(app);
	}
	return apps;
}

async function openStaged(
	product: SimulatedProduct,
	apps: readonly AppWorld[],
	{ seed, devices, days, attack }: Pick<FleetOptions, "seed" | "devices" | "days" | "attack">,
): Promise<StagedRollouts> {
	let orgId = apps.at(-1)?.orgId ?? "";
	// The attacked app is compared separately.
	if (attack > 0) orgId = (await product.api("PUT", "/organization", { name: "Attacked" })).id;
	const staged = Math.min(MOST_STAGED, Math.max(LEAST_STAGED, Math.ceil(devices * STAGED_SHARE)));
	const chance = streamOf(seed, 2);
	return StagedRollouts.open(product, "com.example.fleet.staged", orgId, { chance, devices: staged, days, attack });
}

function joining(chance: Stream, apps: readonly AppWorld[], day: number, days: number): Phone {
	let place = draw(chance);
	const index = Math.max(
		0,
		APPS.findIndex(({ share }) => {
			place -= share;
			return place < 0;
		}),
	);
	const app = apps[index];
	const kind = APPS[index];
	if (app === undefined || kind === undefined) throw new Error("there are no apps");
	return newPhone(chance, app, oneOf<Platform>(chance, kind.platforms), day, days);
}

interface Start {
	readonly phone: Phone;
	readonly startMs: number;
}

/** Checks one after the other within fifteen minutes, or sooner if there are few. */
function startsOf(phones: readonly Phone[], fromMs: number): Start[] {
	const withinMs = Math.min(HOUR_MS / 4, Math.max(1, phones.length * BETWEEN_SESSIONS_MS));
	return phones
		.map((phone) => ({ phone, startMs: fromMs + below(phone.life, withinMs) }))
		.sort((one, other) => one.startMs - other.startMs);
}

/** Phones that open the app in each wave of this day; a reinstalled phone is a new device. */
function whoOpens(phones: Phone[], day: number, days: number): Phone[][] {
	const times: Phone[][] = TIMES_MS.map(() => []);
	const dayMs = (FIRST_DAY + day) * DAY_MS;
	for (const [index, before] of phones.entries()) {
		let phone = before;
		if (day >= phone.awayFrom && day < phone.awayUntil) continue;
		if (!happens(phone.life, phone.habit)) continue;
		// An app that is still open from the evening before is neither updated nor reinstalled.
		const closed = phone.busyUntilMs < dayMs;
		if (closed && happens(phone.life, REINSTALLS_A_DAY)) {
			phone = reinstalled(phone, day, days);
			phones[index] = phone;
		} else if (closed && day > 0 && day % STORE_UPDATE_DAYS === 0 && happens(phone.life, 0.3)) {
			updateFromStore(phone, `1.0.${day / STORE_UPDATE_DAYS}`);
		}
		for (let opens = 1 + below(phone.life, 3); opens > 0; opens -= 1) {
			const at = times[below(phone.life, times.length)];
			// A device acts in order, so its sessions do not overlap.
			if (at?.at(-1) !== phone) at?.push(phone);
		}
	}
	return times;
}

async function inParallel<Item>(
	items: readonly Item[],
	width: number,
	work: (item: Item) => Promise<void>,
): Promise<void> {
	let next = 0;
	const worker = async () => {
		for (let item = items[next++]; item !== undefined; item = items[next++]) await work(item);
	};
	await Promise.all(Array.from({ length: width }, worker));
}
