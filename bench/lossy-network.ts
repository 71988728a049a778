/**
 * A phone's network between the published client and the product: requests get lost, connections
 * end after some bytes, a resumed download is answered from its start, and a filter damages one
 * kind of file every time. Seeded, so a phone has the same network in every comparison. A timeout
 * ends its connection at once, because the client would wait for a minute of real time.
 */
import { createServer, request as forward } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

export interface LossyNetwork {
	readonly url: string;
	/** Bytes of bundles and their files that reached the phone, since it is lossy or began. */
	readonly receivedBytes: number;
	/** It passes everything before. */
	startLosing(): void;
	/**
	 * Does not let reports of failed files reach the server, as if it did not offer the zip after
	 * them.
	 */
	hidesFailedFiles: boolean;
	stop(): Promise<void>;
}

interface Quality {
	readonly lost: number;
	/** Mean number of bytes of an answer after which its connection ends. */
	readonly cutAfterBytes: number;
	/** A resumed download gets the whole file. */
	readonly wrongResume: number;
	/** The filter of the network damages this file of a manifest. */
	readonly damages: string | undefined;
}

const MEGABYTE = 1_000_000;
/** Shares of phones: at home, on a train, in a basement. */
const QUALITIES = [
	{ share: 0.5, lost: 0.005, cutAfterBytes: 60 * MEGABYTE },
	{ share: 0.25, lost: 0.03, cutAfterBytes: 2 * MEGABYTE },
	{ share: 0.25, lost: 0.08, cutAfterBytes: 0.2 * MEGABYTE },
] as const;
const WRONG_RESUME = 0.05;
/** Phones behind a filter, such as that of a company. */
const FILTERED = 0.1;

/** Numbers from 0 to 1 that follow from a seed (mulberry32). */
export function seeded(seed: number): () => number {
	let state = seed >>> 0;
	return () => {
		state = (state + 0x6d2b79f5) >>> 0;
		let mixed = Math.imul(state ^ (state >>> 15), state | 1);
		mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
		return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
	};
}

function qualityOf(random: () => number, filteredFile: string): Quality {
	const [drawn, filter] = [random(), random()];
	let upTo = 0;
	const found = QUALITIES.find(({ share }) => {
		upTo += share;
		return drawn < upTo;
	});
	const { lost, cutAfterBytes } = found ?? QUALITIES[2];
	return { lost, cutAfterBytes, wrongResume: WRONG_RESUME, damages: filter < FILTERED ? filteredFile : undefined };
}

const HIDDEN = /^download_manifest_.*_fail$|^manifest_path_fail$|^download_fail$/;

/** @param filteredFile name of a file that some networks damage */
export async function startLossyNetwork(target: string, seed: number, filteredFile: string): Promise<LossyNetwork> {
	const random = seeded(seed);
	const quality = qualityOf(random, filteredFile);
	const { hostname, port } = new URL(target);
	let [receivedBytes, isLossy] = [0, false];
	let damagedPath: string | undefined;
	const server = createServer(async (incoming, answer) => {
		const { method = "", url: path = "" } = incoming;
		const sent = await buffer(incoming);
		const isDownload = path.startsWith("/files/");
		const { range: _, ...unresumed } = incoming.headers;
		const isWrong = isDownload && isLossy && random() < quality.wrongResume;
		const body = path === "/stats" && network.hidesFailedFiles ? withoutFailedFiles(sent) : sent;
		if (body === undefined) {
			answer.writeHead(200, { "content-type": "application/json" }).end('{"status":"ok"}');
			return;
		}
		if (isLossy && random() < quality.lost) {
			answer.destroy();
			return;
		}
		const headers = { ...(isWrong ? unresumed : incoming.headers), "content-length": String(body.length) };
		const outgoing = forward({ hostname, port, method, path, headers }, async (received) => {
			const bytes = await buffer(received);
			if (path === "/updates" && quality.damages !== undefined)
				damagedPath = pathIn(bytes, quality.damages) ?? damagedPath;
			const isDamaged = isLossy && path === damagedPath;
			const given = isDamaged ? bytes.map((byte) => byte ^ 1) : bytes;
			answer.writeHead(received.statusCode ?? 502, received.headers);
			const cutAt = Math.floor(-Math.log(1 - random()) * quality.cutAfterBytes);
			if (!isLossy || cutAt >= given.length) {
				if (isDownload) receivedBytes += given.length;
				answer.end(given);
				return;
			}
			if (isDownload) receivedBytes += cutAt;
			answer.write(given.subarray(0, cutAt), () => answer.destroy());
		});
		outgoing.on("error", () => answer.destroy());
		outgoing.end(body);
	});
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const network: LossyNetwork = {
		url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
		get receivedBytes() {
			return receivedBytes;
		},
		startLosing() {
			[receivedBytes, isLossy] = [0, true];
		},
		hidesFailedFiles: false,
		stop: () =>
			new Promise((resolve) => {
				server.close(() => resolve());
				server.closeAllConnections();
			}),
	};
	return network;
}

/** Path of a file of the manifest in the answer to a check. */
function pathIn(answer: Buffer, fileName: string): string | undefined {
	const { manifest = [] } = JSON.parse(answer.toString()) as {
		readonly manifest?: readonly { readonly file_name: string; readonly download_url: string }[];
	};
	const found = manifest.find(({ file_name }) => file_name.replace(/\.br$/, "") === fileName);
	if (found === undefined) return undefined;
	const { pathname, search } = new URL(found.download_url);
	return `${pathname}${search}`;
}

/** Undefined if no report is left. */
function withoutFailedFiles(body: Buffer): Buffer | undefined {
	const reports = [JSON.parse(body.toString())].flat() as { readonly action?: string }[];
	const left = reports.filter(({ action }) => !HIDDEN.test(action ?? ""));
	if (left.length === 0) return undefined;
	return left.length === reports.length ? body : Buffer.from(JSON.stringify(left));
}
