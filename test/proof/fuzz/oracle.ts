/**
 * Whether an answer may be given: no failure of ours, nothing that the document does not declare
 * for the operation that was addressed, nothing that nobody may see. Every rule that is broken is
 * one line of text; an empty list is a good answer.
 */
import type { ApiDocument, DeclaredAnswer, Operation } from "./document";
import { headerOf, type Outcome, type RawAnswer, type RawRequest } from "./raw-http";

export interface Judged {
	readonly faults: readonly string[];
	/** The operation that the request addressed in the end. */
	readonly operation: Operation | undefined;
	readonly status: number | undefined;
	/** False: the runtime answered, or nobody. */
	readonly byService: boolean;
}

export interface Secrets {
	/** Texts that no answer may hold. */
	readonly never: readonly string[];
}

export interface Oracle {
	judge(request: RawRequest, outcome: Outcome): Judged;
	/**
	 * Long hexadecimal texts that answers have shown, with the request of the first: compared with the
	 * database at the end.
	 */
	readonly shownDigits: ReadonlyMap<string, string>;
}

/** Most bytes of an error: it may quote what was wrong, not send it all back. */
const LONGEST_ERROR_BYTES = 64 * 1024;
/** A credential that is new to the isolate is looked up alone, before the two of the endpoint. */
const MOST_TRIPS = 3;
/** The sample app notes its bytes before it stores them. */
const MORE_TRIPS: Readonly<Record<string, number>> = { "POST /app/sample": 4, "POST /app/demo": 4 };
const KEY_SHAPED = /cap_[0-9A-Za-z]{38}/g;
const LONG_DIGITS = /[0-9a-f]{56,}/g;

/** Texts that must not leave the service. No mutation contains them. */
const INSIDE: readonly (readonly [what: string, pattern: RegExp])[] = [
	["a stack trace", /\n\s+at |\\n\s+at \S|\bat \w[\w.]* \(|worker\.js:\d/],
	["a path of the file system", /node_modules|file:\/\/\/(?!etc)|root:x:0|\/(?:src|usr|var|tmp)\/\w+\/\w+/],
	[
		"text of the database",
		/SQLITE_|D1_\w*ERROR|no such (?:table|column)|syntax error|(?:select|insert into|update|delete from) \\?"\w+\\?"/i,
	],
	[
		"an error of the language",
		/\b(?:Type|Range|Reference|Syntax|URI|Internal)Error\b|is not a function|Cannot read propert|\[object /,
	],
];

export function createOracle(document: ApiDocument, origin: string, secrets: Secrets): Oracle {
	const shownDigits = new Map<string, string>();
	return {
		shownDigits,
		judge(sent, outcome) {
			// The runtime takes every request for a WebSocket for a GET.
			const asGet = sent.method !== "HEAD" && sent.headers.some(([, value]) => value === "websocket");
			const request = asGet ? { ...sent, method: "GET" } : sent;
			const { operation, methods } = document.resolve(request.method, request.target, origin);
			if (typeof outcome === "string") {
				const fine = request.unsound === true && outcome === "closed";
				return { faults: fine ? [] : [`no answer: ${outcome}`], operation, status: undefined, byService: false };
			}
			const faults = [
				...secretFaults(outcome, operation, secrets),
				...(reachedService(outcome)
					? [...statusFaults(outcome), ...answerFaults(request, outcome, operation, methods)]
					: transportFaults(request, outcome)),
			];
			for (const [digits] of allText(outcome).matchAll(LONG_DIGITS)) {
				if (!shownDigits.has(digits)) shownDigits.set(digits, `${request.method} ${request.target.slice(0, 200)}`);
			}
			const byService = reachedService(outcome);
			return { faults, operation: byService ? operation : undefined, status: outcome.status, byService };
		},
	};
}

/**
 * Characters that no URI has. The runtime parses most of them all the same, but not all beside an
 * "@".
 */
const NOT_IN_URI = /["<>\\^`{|}]/;

/**
 * The runtime refuses what is no HTTP in its own words, 500 among them; it is no answer of the
 * service.
 */
function transportFaults(request: RawRequest, { status }: RawAnswer): string[] {
	const isRefusedTarget = status === 400 && NOT_IN_URI.test(request.target);
	return request.unsound === true || isRefusedTarget
		? []
		: [`answered with ${status} by something other than the service`];
}

/** The fast paths of devices give a success no request id. */
const reachedService = (answer: RawAnswer) =>
	headerOf(answer, "x-request-id") !== undefined || headerOf(answer, "cache-control") === "private, no-store";
const allText = ({ headers, body }: RawAnswer) =>
	`${headers.map(([name, value]) => `${name}: ${value}`).join("\n")}\n\n${body.toString("utf8")}`;

function statusFaults({ status }: RawAnswer): string[] {
	return status >= 500 || status < 200 ? [`status ${status}`] : [];
}

function secretFaults(answer: RawAnswer, operation: Operation | undefined, secrets: Secrets): string[] {
	const text = allText(answer);
	const faults = secrets.never.filter((secret) => text.includes(secret)).map(() => "shows a secret of the seeded ones");
	const mayShowKey = operation?.showsKeys === true && answer.status < 300;
	if (!mayShowKey && KEY_SHAPED.test(text)) faults.push("shows the text of a key");
	KEY_SHAPED.lastIndex = 0;
	if (headerOf(answer, "x-injected") !== undefined) faults.push("lets the request add a header to the answer");
	// Stored bytes are the clients' own.
	if (isJson(answer) || isLines(answer) || answer.status >= 400) {
		for (const [what, pattern] of INSIDE) {
			const found = pattern.exec(text);
			if (found !== null) faults.push(`shows ${what}: ${text.slice(Math.max(0, found.index - 40), found.index + 80)}`);
		}
	}
	return faults;
}

const JSON_TYPE = "application/json";
const isLines = (answer: RawAnswer) => headerOf(answer, "content-type") === "application/x-ndjson";
const isJson = (answer: RawAnswer) => headerOf(answer, "content-type")?.startsWith(JSON_TYPE) === true;

function answerFaults(
	request: RawRequest,
	answer: RawAnswer,
	operation: Operation | undefined,
	methods: readonly string[],
): string[] {
	// The answer of a creation that may be repeated is stored.
	const stored = request.headers.some(([name]) => name.toLowerCase() === "idempotency-key") ? 1 : 0;
	const trips = /trips=(\d+)/.exec(headerOf(answer, "server-timing") ?? "")?.[1];
	const faults =
		trips !== undefined && Number(trips) > (MORE_TRIPS[operation?.name ?? ""] ?? MOST_TRIPS) + stored
			? [`${trips} round trips to the database`]
			: [];
	if (headerOf(answer, "cache-control") === undefined) faults.push("says nothing about caching");
	const preflight = request.headers.some(([name]) => name === "access-control-request-method");
	if (request.method === "OPTIONS" && (preflight || (operation === undefined && methods.length > 0))) {
		return [...faults, ...(answer.status === 204 ? [] : [`status ${answer.status} for OPTIONS`])];
	}
	if (operation === undefined) {
		const code = methods.length > 0 ? ([405, "method_not_allowed"] as const) : ([404, "not_found"] as const);
		if (answer.status !== code[0]) faults.push(`status ${answer.status} where no operation is, instead of ${code[0]}`);
		if (answer.status === 405 && headerOf(answer, "allow") === undefined) faults.push("405 without Allow");
		return [...faults, ...errorFaults(request, answer, new Set([code[1]]))];
	}
	const declared = operation.responses.get(answer.status);
	if (declared === undefined) return [...faults, `${operation.name} does not declare the status ${answer.status}`];
	return [...faults, ...declaredFaults(request, answer, operation, declared)];
}

function declaredFaults(
	request: RawRequest,
	answer: RawAnswer,
	operation: Operation,
	declared: DeclaredAnswer,
): string[] {
	if (declared.errorCodes !== undefined) {
		const retry = [429, 503].includes(answer.status) && headerOf(answer, "retry-after") === undefined;
		return [...(retry ? ["no Retry-After"] : []), ...errorFaults(request, answer, declared.errorCodes)];
	}
	if (request.method === "HEAD" || declared.contentTypes.length === 0) {
		return answer.body.length > 0 ? ["a body where none is declared"] : [];
	}
	if (!isJson(answer) && declared.contentTypes.some((type) => type !== JSON_TYPE))
		return streamFaults(answer, operation);
	if (declared.validate === undefined) return ["JSON where bytes are declared"];
	const parsed = parse(answer);
	if (!isJson(answer) || parsed === undefined) return [`no JSON where ${operation.name} declares some`];
	if (declared.validate(parsed.value)) return [];
	const [error] = declared.validate.errors ?? [];
	return [
		`outside the schema of ${operation.name}: ${error?.instancePath} ${error?.message} ${JSON.stringify(error?.params)}`,
	];
}

/**
 * Bytes are the clients' own, and of the type that they were stored with; lines of JSON are the
 * service's.
 */
function streamFaults(answer: RawAnswer, { name }: Operation): string[] {
	if (!isLines(answer)) return [];
	const lines = answer.body.toString("utf8").split("\n");
	const sound =
		lines.pop() === "" && lines.every((line) => parse({ ...answer, body: Buffer.from(line) }) !== undefined);
	return sound ? [] : [`${name} answers with lines that are no JSON`];
}

/** The one shape of errors. */
function errorFaults(request: RawRequest, answer: RawAnswer, codes: ReadonlySet<string>): string[] {
	if (request.method === "HEAD") return answer.body.length > 0 ? ["a body in the answer to HEAD"] : [];
	if (answer.body.length > LONGEST_ERROR_BYTES) return [`an error of ${answer.body.length} bytes`];
	const parsed = parse(answer);
	if (!isJson(answer) || parsed === undefined) return ["an error that is no JSON"];
	const { error, message, moreInfo, status, requestId, ...rest } = Object(parsed.value);
	const faults: string[] = [];
	if (status !== "KO") faults.push("an error without its status");
	if (Object.keys(rest).length > 0) faults.push(`an error with the fields ${Object.keys(rest).join(", ")}`);
	if (!codes.has(error)) faults.push(`the error ${error}, which is not declared for ${answer.status}`);
	if (typeof message !== "string" || message === "" || message.length > 2_000)
		faults.push("an error without a usable message");
	if (typeof moreInfo !== "object" || moreInfo === null || Array.isArray(moreInfo))
		faults.push("moreInfo is no object");
	if (requestId !== headerOf(answer, "x-request-id")) faults.push("the error's requestId is not the header's");
	return faults;
}

/** Undefined: no JSON in sound UTF-8. */
function parse({ body }: RawAnswer): { value: unknown } | undefined {
	try {
		return { value: JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(body)) };
	} catch {
		return undefined;
	}
}
