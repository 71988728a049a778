/**
 * A stranger with many made-up devices and fifty addresses in fifty networks. Before each wave of a
 * rollout, the devices request the bundle and report that it does not start; refused requests are
 * not repeated. The rollout must proceed as without the attack, and statistics grow at most by the
 * accepted reports.
 */
import type { AppWorld } from "./app-world";
import { addPair, type Pairs } from "./comparison";
import { ADDRESS_HEADER, TIME_HEADER } from "./control";
import type { SimulatedProduct } from "./product";
import { type Stream, uuidOf } from "./random";

const ADDRESSES = 50;
/** Approximate number of waves of both rollouts, and so of attacks. */
const STRIKES = 6;
/** Reports that fit into one request body. */
const REPORTS_A_REQUEST = 250;
const WIDTH = 12;

export class Attack {
	/** Devices and reports that the service answered with success. */
	readonly accepted = { devices: 0, reports: 0 };
	#refused = 0;
	readonly #chance: Stream;

	constructor(
		readonly product: SimulatedProduct,
		readonly app: AppWorld,
		readonly devices: number,
		chance: number,
	) {
		this.#chance = { chance };
	}

	/** Ids that were never used. */
	async strike(version: string, running: string, nowMs: number): Promise<void> {
		const count = Math.ceil(this.devices / STRIKES);
		const byAddress = Array.from({ length: ADDRESSES }, (_, index) =>
			Array.from({ length: Math.ceil((count - index) / ADDRESSES) }, () => uuidOf(this.#chance)),
		);
		const work = byAddress.map(
			(ids, index) => () => this.#from(`198.${18 + index}.51.9`, ids, version, running, nowMs),
		);
		const next = async () => {
			for (let one = work.pop(); one !== undefined; one = work.pop()) await one();
		};
		await Promise.all(Array.from({ length: WIDTH }, next));
	}

	async #from(address: string, ids: readonly string[], version: string, running: string, nowMs: number): Promise<void> {
		const send = async (path: string, body: unknown) => {
			const { status } = await this.product.http.ask({
				method: "POST",
				path,
				headers: { "content-type": "application/json", [ADDRESS_HEADER]: address, [TIME_HEADER]: String(nowMs) },
				body: JSON.stringify(body),
			});
			if (status !== 200 && status !== 429) throw new Error(`${path} answered a stranger with ${status}`);
			if (status === 429) this.#refused += 1;
			return status === 200;
		};
		const about = (id: string) => ({
			app_id: this.app.appId,
			device_id: id,
			platform: "android",
			version_name: running,
			version_build: "1.0.0",
			plugin_version: "8.51.23",
			is_prod: true,
			is_emulator: false,
			custom_id: "x".repeat(500),
		});
		for (const id of ids) if (await send("/updates", about(id))) this.accepted.devices += 1;
		for (let index = 0; index < ids.length; index += REPORTS_A_REQUEST) {
			const some = ids.slice(index, index + REPORTS_A_REQUEST);
			const reports = some.map((id) => ({
				...about(id),
				custom_id: undefined,
				action: "update_fail",
				version_name: version,
				timestamp: nowMs,
			}));
			if (await send("/stats", reports)) this.accepted.reports += reports.length;
		}
	}

	/**
	 * Every report of the fleet is counted, and of the stranger's reports at most the accepted ones.
	 */
	async compare(pairs: Pairs, firstDay: number, lastDay: number): Promise<void> {
		const { truth, appId } = this.app;
		const [from, to] = [firstDay, lastDay].map((day) => new Date(day * 86_400_000).toISOString().slice(0, 10));
		const items = await this.product.api("GET", `/statistics/app/${appId}?from=${from}&to=${to}`);
		const last = items.at(-1);
		const bounds = {
			mau: [truth.distinct(firstDay, lastDay), this.accepted.devices],
			fail: [truth.counts.sum({ metric: "fail" }), this.accepted.reports],
			install: [truth.counts.sum({ metric: "install" }), 0],
			get: [truth.counts.sum({ metric: "get" }), 0],
		} as const;
		for (const [figure, [own, more]] of Object.entries(bounds)) {
			// Distinct devices are an estimate.
			const slack = figure === "mau" ? 0.02 * (own + more) : 0;
			const isWithin = last[figure] >= own - slack && last[figure] <= own + more + slack;
			addPair(pairs, "attack: statistics between the fleet's own and what was accepted", {
				of: `${figure} ${last[figure]}, not ${own} to ${own + more}`,
				truth: 1,
				answer: isWithin ? 1 : 0,
			});
		}
		addPair(pairs, "attack: made-up devices that were answered", {
			of: `${this.#refused} refused`,
			truth: this.accepted.devices,
			answer: this.accepted.devices,
		});
	}
}
