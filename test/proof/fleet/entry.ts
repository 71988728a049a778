/**
 * The module in front of the built Worker in the simulation. It sets the Worker's clock to the
 * simulated day and makes the Queue deliver batches again, in another order and concurrently, by
 * failing the consumer where it can really fail. The Worker itself is unchanged.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { CONTROL_PATH, type Control, type ControlState, FAULTS, type Fault, TIME_HEADER } from "./control";
import { below, draw, happens, type Stream } from "./random";
// The simulation adds this module when it starts the Worker.
// @ts-expect-error
import built from "./worker.js";

interface Env {
	readonly DB: D1Database;
	readonly EVENTS: Queue;
	readonly CAPSTAN_CLIENT_ADDRESS?: string;
	readonly ADDRESS_LIMIT_SCALE?: string;
}
const product = built as Required<Pick<ExportedHandler<Env>, "fetch" | "queue" | "scheduled">>;

/** Messages get no fault from this attempt on, because the Queue gives up after five more. */
const LAST_FAULTY_ATTEMPT = 3;
/** Approximate maximum of D1 batches in one run of the device-event consumer. */
const MOST_WRITES = 3;
/** Failures that are reported. */
const MOST_FAILURES = 20;
/** Maximum size of a batch; the Queue chooses the size. */
const MOST_MESSAGES = 4;
/** Concurrent consumers. */
const CONSUMERS = 2;

/**
 * The values of src/snapshots/freshness.ts and shared-work.ts: within a simulated moment no time
 * passes.
 */
const DEADLINES_MS = [500, 2_000, 5_000];
const SIMULATED = "as simulated";

const realNow = Date.now;
let aheadMs = 0;
/** Requests of many phones run concurrently, and each carries its time. */
const moments = new AsyncLocalStorage<number>();
Date.now = () => moments.getStore() ?? realNow() + aheadMs;

let waitShare = 1;
const realSetTimeout = globalThis.setTimeout;
const state = {
	sent: 0,
	done: 0,
	sending: 0,
	deliveries: 0,
	delays: 0,
	faults: Object.fromEntries(FAULTS.map((fault) => [fault, 0])) as Record<Fault, number>,
	failures: [] as string[],
};
globalThis.setTimeout = ((work: (...parameters: unknown[]) => void, ms?: number, ...parameters: unknown[]) => {
	// Deadlines of the service are not shortened, and end with their request.
	if (DEADLINES_MS.includes(ms ?? 0)) return realSetTimeout(work, ms, ...parameters);
	state.delays += 1;
	return realSetTimeout(
		() => {
			state.delays -= 1;
			work(...parameters);
		},
		(ms ?? 0) * waitShare,
	);
}) as typeof setTimeout;

// Injected failures are not logged.
const realError = console.error;
console.error = (...texts: unknown[]) => {
	if (!String(texts[0]).includes(SIMULATED)) realError(...texts);
};

const chance: Stream = { chance: 0 };
let faultShare = 0;
let faults = 0;

class Simulated extends Error {
	constructor(what: string) {
		super(`${what}, ${SIMULATED}`);
	}
}

/** The fault of a write in this run of the consumer. */
interface Plan {
	readonly fault: "refused" | "lost_answer";
	writesUntil: number;
}
const plans = new AsyncLocalStorage<Plan>();

type Method = (...parameters: unknown[]) => unknown;

/** The object with some methods replaced; each replacement gets the original. */
function replaced<Value extends object>(value: Value, methods: Record<string, (original: Method) => Method>): Value {
	return new Proxy(value, {
		get(target, name) {
			const member: unknown = Reflect.get(target, name);
			if (typeof member !== "function") return member;
			const original: Method = member.bind(target);
			const replacement = typeof name === "string" ? methods[name] : undefined;
			return replacement === undefined ? original : replacement(original);
		},
	});
}

function database<Value extends object>(value: Value): Value {
	return replaced(value, {
		batch: (batch) => async (statements) => {
			const plan = plans.getStore();
			const strikes = plan !== undefined && plan.writesUntil-- === 0;
			if (strikes && plan.fault === "refused") throw new Simulated("D1 refused");
			const results = await batch(statements);
			if (strikes) throw new Simulated("D1's answer was lost");
			return results;
		},
		withSession: (withSession) => (constraint) => database(withSession(constraint) as object),
	});
}

let wrapped: Env | undefined;

/** The Worker keeps the first environment that it gets. */
function watched(env: Env): Env {
	wrapped ??= {
		...env,
		// Every device has a different address.
		CAPSTAN_CLIENT_ADDRESS: "",
		ADDRESS_LIMIT_SCALE: "1",
		DB: database(env.DB),
		EVENTS: replaced(env.EVENTS, {
			send: (send) => async (message) => {
				state.sending += 1;
				try {
					await send(message);
					state.sent += 1;
				} finally {
					state.sending -= 1;
				}
			},
		}),
	};
	return wrapped;
}

function faultFor(messages: readonly Message[]): Fault | undefined {
	const faulty = messages.every(({ attempts }) => attempts <= LAST_FAULTY_ATTEMPT) && happens(chance, faultShare);
	// Round robin, so that a small fleet meets every fault.
	return faulty ? FAULTS[faults++ % FAULTS.length] : undefined;
}

/** The messages in another order and in small batches; unchanged when no fault is injected. */
function dealt(messages: readonly Message[]): (readonly Message[])[] {
	if (faultShare === 0) return [messages];
	const deck = messages.map((message) => ({ message, place: draw(chance) })).sort((one, two) => one.place - two.place);
	const hands: Message[][] = [];
	for (let at = 0; at < deck.length; ) {
		const end = at + 1 + below(chance, MOST_MESSAGES);
		hands.push(deck.slice(at, end).map(({ message }) => message));
		at = end;
	}
	return hands;
}

/** One run of the product's consumer; the messages that it acknowledged. */
async function run(
	messages: readonly Message[],
	queue: string,
	env: Env,
	ctx: ExecutionContext,
): Promise<ReadonlySet<Message>> {
	const done = new Set(messages);
	const watchedMessages = messages.map((message) => ({
		id: message.id,
		timestamp: message.timestamp,
		body: message.body,
		attempts: message.attempts,
		ack: () => undefined,
		retry: () => done.delete(message),
	}));
	const batch = { messages: watchedMessages, queue, ackAll: () => undefined, retryAll: () => done.clear() };
	await product.queue(batch as unknown as MessageBatch<unknown>, watched(env), ctx);
	return done;
}

/** @throws {Simulated} when the acknowledgement must be lost */
async function deliver(
	fault: Fault | undefined,
	consumer: () => Promise<ReadonlySet<Message>>,
): Promise<ReadonlySet<Message>> {
	switch (fault) {
		case undefined:
			return consumer();
		case "before":
			throw new Simulated("the consumer died before");
		case "after":
			await consumer();
			throw new Simulated("the consumer died afterwards");
		case "twice": {
			const [one, other] = await Promise.all([consumer(), consumer()]);
			return new Set([...one].filter((message) => other.has(message)));
		}
		case "refused":
		case "lost_answer":
			await plans.run({ fault, writesUntil: below(chance, MOST_WRITES) }, consumer);
			throw new Simulated("the consumer died afterwards");
	}
}

/** One delivery; its messages are acknowledged or delivered again. */
async function consume(messages: readonly Message[], queue: string, env: Env, ctx: ExecutionContext): Promise<void> {
	state.deliveries += 1;
	const fault = faultFor(messages);
	if (fault !== undefined) state.faults[fault] += 1;
	let done: ReadonlySet<Message> = new Set();
	try {
		done = await deliver(fault, () => run(messages, queue, env, ctx));
		if (done.size < messages.length) fail(`${messages.length - done.size} messages were to come again`);
	} catch (error) {
		if (!(error instanceof Simulated) && (fault === undefined || fault === "twice")) fail(String(error));
	}
	for (const message of messages) {
		if (done.has(message)) message.ack();
		else message.retry();
	}
	state.done += done.size;
}

function fail(what: string): void {
	if (state.failures.length < MOST_FAILURES) state.failures.push(what);
}

export default {
	async fetch(request, env, ctx) {
		if (!request.url.includes(CONTROL_PATH)) {
			const moment = request.headers.get(TIME_HEADER);
			const run = () => product.fetch(request, watched(env), ctx);
			return moment === null ? run() : moments.run(Number(moment), run);
		}
		const control = (await request.json()) as Control;
		if (control.nowMs !== undefined) aheadMs = control.nowMs - realNow();
		if (control.waitShare !== undefined) waitShare = control.waitShare;
		if (control.seed !== undefined) chance.chance = control.seed;
		if (control.faultShare !== undefined) faultShare = control.faultShare;
		return Response.json(state satisfies ControlState);
	},
	async queue(batch, env, ctx) {
		const hands = dealt(batch.messages);
		const consumer = async () => {
			for (let hand = hands.pop(); hand !== undefined; hand = hands.pop()) await consume(hand, batch.queue, env, ctx);
		};
		await Promise.all(Array.from({ length: CONSUMERS }, consumer));
	},
	async scheduled(controller, env, ctx) {
		await product.scheduled(controller, watched(env), ctx);
	},
} satisfies ExportedHandler<Env>;
