/**
 * Counts distinct devices over any range of days from one sketch per day: the set of their hashes
 * up to 1,000 devices, a HyperLogLog above. Sketches are merged, so a device of thirty days counts
 * once. Counts are exact to 1,000; above that the standard error is 0.57 %, so 2,000 of 2,001
 * answers lie within 2 % (test/unit/distinct-count.test.ts).
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";

/** Devices up to which a count is exact. */
export const EXACT_UP_TO = 1_000;
const HASH_BYTES = 8;
/** 2^15 registers of one byte. */
const INDEX_BITS = 15;
const REGISTERS = 1 << INDEX_BITS;
/** First byte of a stored sketch. */
const EXACT = 1;
/**
 * Half a byte per register: its distance to the lowest one. Registers that are farther away follow
 * as index and value, three bytes each.
 */
const HALF_BYTES = 3;
const FARTHEST = 15;
const EXCEPTION_BYTES = 3;

export type Sketch =
	| { readonly kind: "exact"; readonly hashes: Set<bigint> }
	| { readonly kind: "estimated"; readonly registers: Uint8Array };

export function emptySketch(): Sketch {
	return { kind: "exact", hashes: new Set() };
}

/** Adds the device; may change and return the given sketch. */
export function addDevice(sketch: Sketch, deviceId: string): Sketch {
	return addHash(sketch, hashOf(deviceId));
}

/** The union; may change and return the first sketch. */
export function mergeSketches(one: Sketch, other: Sketch): Sketch {
	if (other.kind === "exact") {
		let merged = one;
		for (const hash of other.hashes) merged = addHash(merged, hash);
		return merged;
	}
	const estimated = one.kind === "estimated" ? one : estimate(one.hashes);
	for (const [index, rank] of other.registers.entries()) {
		if (rank > (estimated.registers[index] ?? 0)) estimated.registers[index] = rank;
	}
	return estimated;
}

/** Different devices in the sketch. */
export function countDistinct(sketch: Sketch): number {
	return sketch.kind === "exact" ? sketch.hashes.size : Math.round(cardinality(sketch.registers));
}

/** As text for the database: base64. */
export function encodeSketch(sketch: Sketch): string {
	const bytes = bytesOf(sketch);
	let text = "";
	for (const byte of bytes) text += String.fromCharCode(byte);
	return btoa(text);
}

function bytesOf(sketch: Sketch): Uint8Array {
	if (sketch.kind === "estimated") return halfBytesOf(sketch.registers);
	const bytes = new Uint8Array(1 + sketch.hashes.size * HASH_BYTES);
	const view = new DataView(bytes.buffer);
	bytes[0] = EXACT;
	let offset = 1;
	// Sorted, so that equal sets have equal bytes.
	for (const hash of [...sketch.hashes].sort((left, right) => (left < right ? -1 : 1))) {
		view.setBigUint64(offset, hash);
		offset += HASH_BYTES;
	}
	return bytes;
}

function halfBytesOf(registers: Uint8Array): Uint8Array {
	const lowest = registers.reduce((least, rank) => Math.min(least, rank), 255);
	const exceptions: number[] = [];
	const packed = new Uint8Array(2 + REGISTERS / 2);
	packed[0] = HALF_BYTES;
	packed[1] = lowest;
	for (const [index, rank] of registers.entries()) {
		const above = Math.min(rank - lowest, FARTHEST);
		if (above === FARTHEST) exceptions.push(index >> 8, index & 255, rank);
		const at = 2 + (index >> 1);
		packed[at] = (packed[at] ?? 0) | (above << (index % 2 === 0 ? 0 : 4));
	}
	const bytes = new Uint8Array(packed.length + exceptions.length);
	bytes.set(packed);
	bytes.set(exceptions, packed.length);
	return bytes;
}

function registersOf(bytes: Uint8Array): Uint8Array {
	const registers = new Uint8Array(REGISTERS);
	const lowest = bytes[1] ?? 0;
	for (let index = 0; index < REGISTERS; index += 2) {
		const both = bytes[2 + (index >> 1)] ?? 0;
		registers[index] = lowest + (both & 15);
		registers[index + 1] = lowest + (both >> 4);
	}
	for (let at = 2 + REGISTERS / 2; at < bytes.length; at += EXCEPTION_BYTES) {
		registers[((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)] = bytes[at + 2] ?? 0;
	}
	return registers;
}

export function decodeSketch(text: string): Sketch {
	const decoded = atob(text);
	const bytes = new Uint8Array(decoded.length);
	for (let index = 0; index < decoded.length; index++) bytes[index] = decoded.charCodeAt(index);
	if (bytes[0] !== EXACT) return { kind: "estimated", registers: registersOf(bytes) };
	const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
	const hashes = new Set<bigint>();
	for (let offset = 1; offset + HASH_BYTES <= bytes.length; offset += HASH_BYTES) hashes.add(view.getBigUint64(offset));
	return { kind: "exact", hashes };
}

function hashOf(deviceId: string): bigint {
	const bytes = sha256(utf8ToBytes(deviceId));
	return new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0);
}

function addHash(sketch: Sketch, hash: bigint): Sketch {
	if (sketch.kind === "exact") {
		sketch.hashes.add(hash);
		return sketch.hashes.size > EXACT_UP_TO ? estimate(sketch.hashes) : sketch;
	}
	const index = Number(hash >> BigInt(64 - INDEX_BITS));
	const rest = BigInt.asUintN(64, hash << BigInt(INDEX_BITS));
	const rank = rest === 0n ? 64 - INDEX_BITS + 1 : 65 - rest.toString(2).length;
	if (rank > (sketch.registers[index] ?? 0)) sketch.registers[index] = rank;
	return sketch;
}

function estimate(hashes: ReadonlySet<bigint>): { readonly kind: "estimated"; readonly registers: Uint8Array } {
	const sketch = { kind: "estimated", registers: new Uint8Array(REGISTERS) } as const;
	for (const hash of hashes) addHash(sketch, hash);
	return sketch;
}

/**
 * Ertl's improved estimator ("New cardinality estimation algorithms for HyperLogLog sketches",
 * 2017). It is accurate over the whole range and needs no tables against the bias between linear
 * counting and the raw estimate.
 */
function cardinality(registers: Uint8Array): number {
	const most = 64 - INDEX_BITS;
	const histogram = new Array<number>(most + 2).fill(0);
	for (const rank of registers) histogram[rank] = (histogram[rank] ?? 0) + 1;
	let sum = REGISTERS * tau(1 - (histogram[most + 1] ?? 0) / REGISTERS);
	for (let rank = most; rank >= 1; rank--) sum = 0.5 * (sum + (histogram[rank] ?? 0));
	sum += REGISTERS * sigma((histogram[0] ?? 0) / REGISTERS);
	return (REGISTERS * REGISTERS) / (2 * Math.LN2 * sum);
}

function sigma(share: number): number {
	if (share === 1) return Number.POSITIVE_INFINITY;
	let [power, factor, sum] = [share, 1, share];
	for (let before = -1; before !== sum; ) {
		power *= power;
		before = sum;
		sum += power * factor;
		factor += factor;
	}
	return sum;
}

function tau(share: number): number {
	if (share === 0 || share === 1) return 0;
	let [root, factor, sum] = [share, 1, 1 - share];
	for (let before = -1; before !== sum; ) {
		root = Math.sqrt(root);
		before = sum;
		factor *= 0.5;
		sum -= (1 - root) ** 2 * factor;
	}
	return sum / 3;
}
