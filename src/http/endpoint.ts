/**
 * One endpoint is one value: method, path, access, input, answer. Routes, openapi.json, the
 * authorization tests, the role matrix and the typed client are derived from these values. `access`
 * has no default, so an endpoint that declares none does not compile.
 */
import type * as v from "valibot";
import type { OwnWorkOnly, Scope, Target } from "../authz/decide";
import type { GlobalPermission, Permission } from "../authz/permissions";
import type { Principal } from "../authz/principal";
import type { RecentSignIn } from "../authz/session";
import type { Actor } from "../db/audit/entries";
import type { Database } from "../db/client";
import type { NamedReads, NamedRows } from "../db/named-reads";
import type { Deps } from "../deps";
import type { FailedFiles } from "../domain/updates/failed-files";
import type { ErrorCode } from "../errors";
import type { EventBuffer } from "../queue/event-buffer";
import type { SnapshotCache } from "../snapshots/cache";
import type { SchemaVersion } from "../snapshots/schema-version";
import type { EdgeCache } from "../storage/edge-cache";
import type { CallerLimits } from "./limits/callers";
import type { Memory } from "./limits/memory";
import type { RawInput, ScopeSource } from "./scope";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" | "HEAD";

/** `:name`, or `:name{pattern}` for a rest that may contain slashes. */
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

/** Access rule of an endpoint. */
export type Access<Row, Endpoint = unknown> =
	/**
	 * No key is needed; the text says why. Reads of D1 are limited by address, unless the handler
	 * first proves that the request is permitted (`isProven`).
	 */
	| { readonly public: string; readonly isProven?: true }
	/**
	 * Every valid key or session; the text says how the answer is limited to what the caller may see.
	 */
	| { readonly anyKey: string }
	/**
	 * A person with a session and no key, on their own account; the text says how it is limited to
	 * that.
	 */
	| { readonly ownSession: string }
	/** A permission that belongs to no organization. */
	| { readonly globalPermission: GlobalPermission }
	/** One permission on one target. */
	| { readonly permission: Permission; readonly scope: ScopeSource<Row> }
	/**
	 * `choose` returns the needed ones of the listed permissions, given the request, its caller and
	 * target, and the loaded rows. It is called for valid requests only.
	 */
	| {
			readonly permissions: readonly [Permission, ...Permission[]];
			readonly scope: ScopeSource<Row>;
			readonly choose: (endpoint: Endpoint) => readonly [Permission, ...Permission[]];
			/**
			 * True: a missing permission on the narrowest target is 403 even if only the wider target is
			 * visible.
			 */
			readonly neverHidden?: true;
	  };

export interface Context<Path extends string, Query, Body, Row, Load> {
	readonly deps: Deps;
	readonly db: Database;
	/** Time of the request, epoch milliseconds; used for everything that the request writes. */
	readonly nowMs: number;
	readonly requestId: string;
	readonly request: Request;
	/** Origin of links in the answer. */
	readonly origin: string;
	readonly input: Input<Path, Query, Body>;
	/** The caller; absent on public endpoints. */
	readonly principal: Principal;
	/** The actor in the audit log. */
	readonly actor: Actor;
	/** Ids of the decided target; `channelId` exists only when the target is a channel. */
	readonly scope: Scope;
	/** The row from which the scope was read. */
	readonly scopeRow: Row;
	/** The rows that `load` read, by the names of its statements. */
	readonly loaded: NamedRows<Load>;
	/** The limit of the permission to the caller's own work, if it has one. */
	readonly ownWorkOnly: (permission: Permission) => OwnWorkOnly | undefined;
	/** Sends device events to the Queue; the request itself writes nothing. */
	readonly eventBuffer: EventBuffer;
	readonly failedFiles: FailedFiles;
	/** The cache that answers update checks. */
	readonly snapshots: SnapshotCache;
	/** Stored objects, through the cache of the data center. */
	readonly edgeCache: EdgeCache;
	/** Cached name of the newest migration. */
	readonly schemaVersion: SchemaVersion;
	/** The bytes that requests under way hold. */
	readonly memory: Memory;
	/** Limits by address on requests without a key. */
	readonly callerLimits: CallerLimits;
	/** Work that continues after the answer. */
	readonly waitUntil: (work: Promise<unknown>) => void;
}

/** An answer with a status or headers beyond the default. */
export class Reply<Body> {
	constructor(
		readonly status: number,
		readonly body: Body,
		/** Each of several values becomes a header. */
		readonly headers: Readonly<Record<string, string | readonly string[]>> = {},
	) {}
}

/**
 * Markdown of the documentation, or its lines: each sentence begins a line, and an empty line ends
 * a paragraph.
 */
export type Prose = string | readonly string[];

export const proseText = (prose: Prose): string => [prose].flat().join(" ").replaceAll("  ", "\n\n");

/**
 * Media type of a body that is not JSON, such as `application/zip`. The handler returns a Response.
 */
export interface RawAnswer {
	readonly contentType: string;
	readonly description: string;
}

/** A request header that the handler reads and validates, for the documentation. */
export interface HeaderDescription {
	readonly description: Prose;
	readonly required?: true;
	readonly example: string;
}

/**
 * Further forms of a request, which clients of another service send. They are translated before
 * anything else looks at the request.
 */
export interface RequestForms {
	/** The request in the endpoint's own form. */
	readonly read?: (raw: RawInput) => RawInput;
	/** The endpoint of the same path that the request is for, if it is another one. */
	readonly instead?: (raw: RawInput) => AnyEndpoint | undefined;
	/**
	 * Names of unknown fields that the endpoint's own client always sends, and that ask for nothing.
	 */
	readonly expected?: readonly string[];
	/** Names of accepted fields whose values have no effect. */
	readonly withoutEffect?: (raw: RawInput) => readonly string[];
}

interface EndpointExample {
	readonly query?: Record<string, string>;
	readonly body?: unknown;
	readonly response?: unknown;
}

interface EndpointDefinition<
	Path extends string,
	Query extends v.GenericSchema | undefined,
	Body extends v.GenericSchema | undefined,
	Answer extends v.GenericSchema | RawAnswer,
	Row,
	Load extends NamedReads,
> {
	readonly method: Method;
	readonly path: Path;
	readonly tag: string;
	readonly summary: string;
	readonly description?: Prose;
	/** The request that replaces this one, and when this one ends. */
	readonly deprecated?: string;
	readonly access: Access<
		Row,
		Pick<Context<Path, Query, Body, Row, Load>, "input" | "scopeRow" | "loaded" | "principal"> & {
			readonly target: Target;
		}
	>;
	/** Schema of the query string, and of the body with `queryOrBody`. */
	readonly query?: Query;
	/**
	 * The parameters may come as a JSON body, as stock clients send them with DELETE; contradictions
	 * are 400.
	 */
	readonly queryOrBody?: true;
	/**
	 * Schema of the JSON body. Without one the body is left unread, so that the handler can stream it.
	 */
	readonly body?: Body;
	/** The body may also be a form (`application/x-www-form-urlencoded`), whose fields are texts. */
	readonly formBody?: true;
	/** Media type of a body that the handler streams. */
	readonly rawBody?: RawAnswer;
	/** Request headers beyond the credential's and the body's, by name. */
	readonly headers?: Readonly<Record<string, HeaderDescription>>;
	/** For programs that use keys: cookies are ignored. */
	readonly keyOnly?: true;
	/**
	 * For actions whose effect outlives the session: a person must have signed in within the last 15
	 * minutes, with a passkey where it is `"passkey"`. A function decides per request. Keys are
	 * exempt.
	 */
	readonly recentSignIn?: true | "passkey" | ((input: Input<Path, Query, Body>) => RecentSignIn);
	/**
	 * Largest JSON body, bytes. Default 1 MiB; more is only for callers that hold the endpoint's
	 * permission somewhere.
	 */
	readonly bodyLimitBytes?: number;
	/** Other methods that are answered alike; for an answer that depends on nothing of the request. */
	readonly alsoMethods?: readonly Method[];
	/**
	 * A POST that only reads (its query does not fit a URL). The snapshot cache is not invalidated.
	 */
	readonly safe?: true;
	/** Unknown fields are 400, because the request gives rights. Deletions refuse them in any case. */
	readonly refusesUnknown?: true;
	readonly forms?: RequestForms;
	/** 200 by default. The first is the usual one. */
	readonly status?: readonly [number, ...number[]];
	readonly response: Answer;
	/** The answer where the handler returns a Response instead. */
	readonly rawResponse?: RawAnswer | readonly RawAnswer[];
	/** Error codes beyond those of the pipeline. */
	readonly errors: readonly ErrorCode[];
	readonly example: EndpointExample;
	/**
	 * Reads in the same round trip as the principal, by name; undefined for a statement that this
	 * request does not need. Each statement carries its tenant in its own WHERE, and its rows are
	 * dropped unless the decision allows the request.
	 */
	readonly load?: (input: Input<Path, Query, Body>, nowMs: number, keyHash: string) => Load;
	readonly handle: (
		context: Context<Path, Query, Body, Row, Load>,
	) => Promise<
		Answer extends v.GenericSchema ? v.InferInput<Answer> | Reply<v.InferInput<Answer>> | Response : Response
	>;
}

/** An endpoint without type parameters, for generic code (pipeline, openapi, tests). */
export interface AnyEndpoint {
	readonly method: Method;
	readonly path: string;
	readonly tag: string;
	readonly summary: string;
	readonly description?: Prose;
	readonly deprecated?: string;
	readonly access: Access<never, never>;
	readonly query?: v.GenericSchema | undefined;
	readonly queryOrBody?: true;
	readonly body?: v.GenericSchema | undefined;
	readonly formBody?: true;
	readonly rawBody?: RawAnswer;
	readonly headers?: Readonly<Record<string, HeaderDescription>>;
	readonly keyOnly?: true;
	readonly recentSignIn?: true | "passkey" | ((input: never) => RecentSignIn);
	readonly bodyLimitBytes?: number;
	readonly alsoMethods?: readonly Method[];
	readonly safe?: true;
	readonly refusesUnknown?: true;
	readonly forms?: RequestForms;
	readonly status?: readonly [number, ...number[]];
	readonly response: v.GenericSchema | RawAnswer;
	readonly rawResponse?: RawAnswer | readonly RawAnswer[];
	readonly errors: readonly ErrorCode[];
	readonly example: EndpointExample;
	readonly load?: (input: never, nowMs: number, keyHash: string) => NamedReads;
	readonly handle: (context: never) => Promise<unknown>;
}

/** Types for the typed client, without a value. */
interface EndpointTypes<Method_ extends Method, Path extends string, Query, Body, Answer> {
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
 * @example export const deleteChannel = endpoint({
 *   method: "DELETE",
 *   path: "/channel",
 *   access: { permission: "channel.delete", scope: channelScope("query.app_id", …) },
 *   …
 * });
 */
export function endpoint<
	const Method_ extends Method,
	const Path extends string,
	const Answer extends v.GenericSchema | RawAnswer,
	Query extends v.GenericSchema | undefined = undefined,
	Body extends v.GenericSchema | undefined = undefined,
	Row = undefined,
	const Load extends NamedReads = Record<never, never>,
>(
	definition: EndpointDefinition<Path, Query, Body, Answer, Row, Load> & { readonly method: Method_ },
): AnyEndpoint & EndpointTypes<Method_, Path, Query, Body, Answer> {
	return definition as unknown as AnyEndpoint & EndpointTypes<Method_, Path, Query, Body, Answer>;
}

export function isRaw(answer: v.GenericSchema | RawAnswer): answer is RawAnswer {
	return "contentType" in answer;
}

/** The permissions that an endpoint may need on its target. */
export function permissionsOf(access: AnyEndpoint["access"]): readonly Permission[] {
	if ("permission" in access) return [access.permission];
	return "permissions" in access ? access.permissions : [];
}
