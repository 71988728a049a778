/**
 * One endpoint is one value: method, path, who may call it, what it takes, what it answers. Routes, openapi.json, the authorization
 * tests, the role matrix and the typed client are all derived from these values. `access` has no default: an endpoint that does not
 * say who may call it does not compile.
 */
import type { CompiledQuery } from "kysely";
import type * as v from "valibot";
import type { OwnWorkOnly, Scope } from "../authz/decide";
import type { GlobalPermission, Permission } from "../authz/permissions";
import type { Principal } from "../authz/principal";
import type { RecentSignIn } from "../authz/session";
import type { Actor } from "../db/audit";
import type { Consistency, Database, StatementResult } from "../db/client";
import type { LiveApps } from "../db/live-apps";
import type { SnapshotCache } from "../db/snapshot-cache";
import type { Deps } from "../deps";
import type { ErrorCode } from "../errors";
import type { GatherEvents } from "../events/gather";
import type { ScopeSource } from "./scope";
import type { StrangerLimits } from "./stranger-limits";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" | "HEAD";

/** `:name`, or `:name{pattern}` for a rest that may hold slashes. */
type ParamName<Param extends string> = Param extends `${infer Name}{${string}` ? Name : Param;
type PathParams<Path extends string> = Path extends `${string}:${infer Param}/${infer Rest}`
	? ParamName<Param> | PathParams<`/${Rest}`>
	: Path extends `${string}:${infer Param}`
		? ParamName<Param>
		: never;

type Output<Schema> = Schema extends v.GenericSchema ? v.InferOutput<Schema> : undefined;

export interface Input<Path extends string, Query, Body> {
	readonly params: Readonly<Record<PathParams<Path>, string>>;
	readonly query: Output<Query>;
	readonly body: Output<Body>;
	readonly headers: Headers;
}

/** Who may call an endpoint. */
export type Access<Row, Endpoint = unknown> =
	/**
	 * Nobody needs a key; the text says why. Its questions to D1 are limited by address, except where the handler first proves that the
	 * request was permitted (`isProven`).
	 */
	| { readonly public: string; readonly isProven?: true }
	/** Every valid key or session; the text says how the answer is limited to what it may see. */
	| { readonly anyKey: string }
	/** Whoever is signed in, with a session and no key, on their own account; the text says how it is limited to that. */
	| { readonly ownSession: string }
	/** A permission of the caller that belongs to no organization. */
	| { readonly globalPermission: GlobalPermission }
	/** One permission on one target. */
	| { readonly permission: Permission; readonly scope: ScopeSource<Row> }
	/** Which of the listed permissions depends on the request and on what is there; `choose` is asked for a valid request only. */
	| {
			readonly permissions: readonly [Permission, ...Permission[]];
			readonly scope: ScopeSource<Row>;
			readonly choose: (endpoint: Endpoint) => readonly [Permission, ...Permission[]];
			/** True: lacking a permission on the narrowest target is 403 even if only the wider one is visible. */
			readonly neverHidden?: true;
	  };

type Loaded<Load> = {
	readonly [Index in keyof Load]: Load[Index] extends CompiledQuery<infer Row> ? StatementResult<Row> : never;
};

export interface Context<Path extends string, Query, Body, Row, Load> {
	readonly deps: Deps;
	readonly db: Database;
	/** The time of the request, epoch milliseconds; one value for everything that the request writes. */
	readonly nowMs: number;
	readonly requestId: string;
	readonly request: Request;
	/** Origin that links in the answer begin with. */
	readonly origin: string;
	readonly input: Input<Path, Query, Body>;
	/** The caller. Not there on public endpoints. */
	readonly principal: Principal;
	/** Who the audit log names. */
	readonly actor: Actor;
	/** Ids of the decided target; `channelId` only when the target is a channel. */
	readonly scope: Scope;
	/** The row that the scope was read from. */
	readonly scopeRow: Row;
	/** The rows that `load` asked for. */
	readonly loaded: Loaded<Load>;
	/** The limit that the permission came with, if it did. */
	readonly ownWorkOnly: (permission: Permission) => OwnWorkOnly | undefined;
	/** Puts what happened on devices on its way; nothing is written in the request. */
	readonly gather: GatherEvents;
	/** What update checks are answered from. */
	readonly snapshots: SnapshotCache;
	/** Which apps still exist. */
	readonly liveApps: LiveApps;
	/** Limits by address on what requests without a key cost. */
	readonly strangers: StrangerLimits;
	/** Work that goes on after the answer. */
	readonly waitUntil: (work: Promise<unknown>) => void;
}

/** An answer with a status or headers of its own. */
export class Reply<Body> {
	constructor(
		readonly status: number,
		readonly body: Body,
		/** Several values of a name become a header each. */
		readonly headers: Readonly<Record<string, string | readonly string[]>> = {},
	) {}
}

/** What bodies that are not JSON are, e.g. `application/zip`. Handlers of such answers return a Response. */
export interface RawAnswer {
	readonly contentType: string;
	readonly description: string;
}

/** A request header that the handler reads, for the documentation; the handler itself judges its value. */
export interface HeaderDescription {
	readonly description: string;
	readonly required?: true;
	readonly example: string;
}

export interface EndpointExample {
	readonly query?: Record<string, string>;
	readonly body?: unknown;
	readonly response?: unknown;
}

export interface EndpointDefinition<
	Path extends string,
	Query extends v.GenericSchema | undefined,
	Body extends v.GenericSchema | undefined,
	Answer extends v.GenericSchema | RawAnswer,
	Row,
	Load extends readonly CompiledQuery[],
> {
	readonly method: Method;
	readonly path: Path;
	readonly tag: string;
	readonly summary: string;
	readonly description?: string;
	readonly access: Access<Row, Pick<Context<Path, Query, Body, Row, Load>, "input" | "scopeRow" | "loaded">>;
	/** Schema of the query string (of the body as well when `queryOrBody`). */
	readonly query?: Query;
	/** The query may come as a JSON body instead, as stock clients send it with DELETE; a contradiction is 400. */
	readonly queryOrBody?: true;
	/** Schema of the JSON body. Without one the body is left unread, for handlers that stream it. */
	readonly body?: Body;
	/** What the body is where the handler streams it. */
	readonly rawBody?: RawAnswer;
	/** Request headers beyond the key's and those of the body, by their names. */
	readonly headers?: Readonly<Record<string, HeaderDescription>>;
	/** For programs that know keys alone: a session's cookie counts for nothing here. */
	readonly keyOnly?: true;
	/**
	 * For actions that do harm beyond the session: a person must have signed in within the last 15 minutes, with a passkey where it is
	 * `"passkey"`. A function decides by the request. Keys are not asked.
	 */
	readonly recentSignIn?: true | "passkey" | ((input: Input<Path, Query, Body>) => RecentSignIn);
	/** Largest JSON body, bytes. Default 1 MiB. */
	readonly bodyLimitBytes?: number;
	/** True of a question too long for an address: it changes nothing, and what is remembered stays true. */
	readonly onlyReads?: true;
	/** 200 unless said. The first is the usual one. */
	readonly status?: readonly [number, ...number[]];
	readonly response: Answer;
	/** What the answer is instead where the handler answers with a Response. */
	readonly rawResponse?: RawAnswer | readonly RawAnswer[];
	/** Error codes beyond those of the pipeline. */
	readonly errors: readonly ErrorCode[];
	readonly example: EndpointExample;
	/**
	 * Reads that travel in the same round trip as the principal. Each statement carries its tenant in its own WHERE, and its rows are
	 * dropped unless the decision allows the request.
	 */
	readonly load?: (input: Input<Path, Query, Body>, nowMs: number, keyHash: string) => Load;
	/** Which copy of the database is read. The primary unless the endpoint is public; a public one that writes says so. */
	readonly consistency?: Consistency;
	readonly handle: (
		context: Context<Path, Query, Body, Row, Load>,
	) => Promise<
		Answer extends v.GenericSchema ? v.InferInput<Answer> | Reply<v.InferInput<Answer>> | Response : Response
	>;
}

/** The shape that generic code (pipeline, openapi, tests) sees. */
export interface AnyEndpoint {
	readonly method: Method;
	readonly path: string;
	readonly tag: string;
	readonly summary: string;
	readonly description?: string;
	readonly access: Access<never, never>;
	readonly query?: v.GenericSchema | undefined;
	readonly queryOrBody?: true;
	readonly body?: v.GenericSchema | undefined;
	readonly rawBody?: RawAnswer;
	readonly headers?: Readonly<Record<string, HeaderDescription>>;
	readonly keyOnly?: true;
	readonly recentSignIn?: true | "passkey" | ((input: never) => RecentSignIn);
	readonly bodyLimitBytes?: number;
	readonly onlyReads?: true;
	readonly status?: readonly [number, ...number[]];
	readonly response: v.GenericSchema | RawAnswer;
	readonly rawResponse?: RawAnswer | readonly RawAnswer[];
	readonly errors: readonly ErrorCode[];
	readonly example: EndpointExample;
	readonly load?: unknown;
	readonly consistency?: Consistency;
	readonly handle: (context: never) => Promise<unknown>;
}

/** What the typed client needs to know of an endpoint; carried in the type alone. */
export interface EndpointTypes<Method_ extends Method, Path extends string, Query, Body, Answer> {
	readonly method: Method_;
	readonly path: Path;
	readonly types?: {
		readonly params: Record<PathParams<Path>, string>;
		readonly query: Query extends v.GenericSchema ? v.InferInput<Query> : undefined;
		readonly body: Body extends v.GenericSchema ? v.InferInput<Body> : undefined;
		readonly answer: Answer extends v.GenericSchema ? v.InferOutput<Answer> : Response;
	};
}

/**
 * Declares an endpoint.
 *
 * @example
 * export const deleteChannel = endpoint({
 *   method: "DELETE", path: "/channel", access: { permission: "channel.delete", scope: channelScope(...) }, ...
 * });
 */
export function endpoint<
	const Method_ extends Method,
	const Path extends string,
	const Answer extends v.GenericSchema | RawAnswer,
	Query extends v.GenericSchema | undefined = undefined,
	Body extends v.GenericSchema | undefined = undefined,
	Row = undefined,
	const Load extends readonly CompiledQuery[] = readonly [],
>(
	definition: EndpointDefinition<Path, Query, Body, Answer, Row, Load> & { readonly method: Method_ },
): AnyEndpoint & EndpointTypes<Method_, Path, Query, Body, Answer> {
	return definition as unknown as AnyEndpoint & EndpointTypes<Method_, Path, Query, Body, Answer>;
}

export function isRaw(answer: v.GenericSchema | RawAnswer): answer is RawAnswer {
	return "contentType" in answer;
}

/** The permissions that an endpoint may ask for on a target; empty for those that have no target. */
export function permissionsOf(access: AnyEndpoint["access"]): readonly Permission[] {
	if ("permission" in access) return [access.permission];
	return "permissions" in access ? access.permissions : [];
}
