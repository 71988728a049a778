/** The protocol between the simulator and the module in front of the Worker. */

export const CONTROL_PATH = "/simulation/control";
/**
 * Arrival of a request in simulated epoch milliseconds; only the module in front of the Worker
 * reads it.
 */
export const TIME_HEADER = "x-simulated-time";
/** Cloudflare's header for the client address. */
export const ADDRESS_HEADER = "cf-connecting-ip";

/** Faults that are injected into a batch of the Queue. */
export const FAULTS = [
	/** The consumer dies before it starts. */
	"before",
	/** Everything is written, but the acknowledgement is lost. */
	"after",
	/** D1 refuses a write of the consumer. */
	"refused",
	/** D1 writes, but the answer is lost. */
	"lost_answer",
	/** The Queue delivers the batch to two consumers concurrently. */
	"twice",
] as const;
export type Fault = (typeof FAULTS)[number];

export interface Control {
	/** Time of the Worker's clock for work without a request. */
	readonly nowMs?: number;
	/** Upper bound of the product's waits; a shorter bound produces more messages. */
	readonly waitShare?: number;
	readonly seed?: number;
	/** Share of the Queue's batches that get a fault. */
	readonly faultShare?: number;
}

export interface ControlState {
	/** Messages sent to the Queue. */
	readonly sent: number;
	/** Messages that were processed and acknowledged. */
	readonly done: number;
	/** Messages that are being sent. */
	readonly sending: number;
	/** Runs of the consumer. */
	readonly deliveries: number;
	readonly faults: Readonly<Record<Fault, number>>;
	/** Failures that were not injected. */
	readonly failures: readonly string[];
	/** Buffers of the product that wait for more events. */
	readonly delays: number;
}
