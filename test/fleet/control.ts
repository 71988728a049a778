/** What the simulator and the module before the Worker say to each other. */

export const CONTROL_PATH = "/simulation/control";
/** The moment at which a request arrives, in simulated epoch milliseconds; read by the module before the Worker and no other. */
export const TIME_HEADER = "x-simulated-time";
/** As Cloudflare names who asks. */
export const ADDRESS_HEADER = "cf-connecting-ip";

/** What may go wrong with a batch of the Queue, on purpose. */
export const FAULTS = [
	/** The consumer dies before it has begun. */
	"before",
	/** All was written, and the Queue does not hear of it. */
	"after",
	/** D1 refuses one of the consumer's writes. */
	"refused",
	/** D1 writes, and its answer is lost. */
	"lost_answer",
	/** The Queue delivers the batch to two consumers at once. */
	"twice",
] as const;
export type Fault = (typeof FAULTS)[number];

export interface Control {
	/** What the Worker's clock shows from now on, where nothing else says it. */
	readonly nowMs?: number;
	/** What the product's waits are cut to: the shorter, the more messages there are. */
	readonly waitShare?: number;
	readonly seed?: number;
	/** Share of the Queue's batches that something happens to. */
	readonly faultShare?: number;
}

export interface ControlState {
	/** Messages that the product gave to the Queue. */
	readonly sent: number;
	/** Messages whose work was done, and that the Queue will not deliver again. */
	readonly done: number;
	/** Messages that are being given to the Queue. */
	readonly sending: number;
	/** Times that the consumer ran. */
	readonly deliveries: number;
	readonly faults: Readonly<Record<Fault, number>>;
	/** What failed that was not meant to. */
	readonly failures: readonly string[];
	/** Times that the product waits for something to gather. */
	readonly delays: number;
}
