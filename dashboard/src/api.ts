/**
 * Access to the API: the typed client with the session cookie, and the query and mutation hooks.
 * The dashboard has no other way to the server, and shows the API's own error messages.
 */
import {
	keepPreviousData,
	MutationCache,
	QueryCache,
	QueryClient,
	type UseQueryResult,
	useMutation,
	useQuery,
	useQueryClient,
} from "@tanstack/react-query";
import { type AnswerOf, CapstanError, createClient, type EndpointKey, type RequestOf } from "../../src/client/client";
import { withoutAsking } from "./components/unsaved";
import { confirmIdentity } from "./identity";

export { CapstanError } from "../../src/client/client";

export const api = createClient({ baseUrl: location.origin });

const here = () => encodeURIComponent(location.pathname + location.search);

let isLeaving = false;
// A page that Back restores from the browser's cache may leave again.
addEventListener("pageshow", () => {
	isLeaving = false;
});

/** Leaves for another page once: an answer that arrives meanwhile must not redirect elsewhere. */
export function leaveFor(address: string): void {
	if (isLeaving) return;
	isLeaving = true;
	location.assign(address);
}

/** To the sign-in page, which returns here afterwards. */
export function goToSignIn(): void {
	leaveFor(`/sign-in?next=${here()}`);
}

/** No session, or an expired one. A wrong sign-in code is 401 too, but the screen shows that. */
const isSignedOut = (error: unknown) =>
	error instanceof CapstanError && (error.code === "missing_api_key" || error.code === "invalid_session");
const onError = (error: unknown) => {
	if (isSignedOut(error)) goToSignIn();
};

/** A busy or restarting server may answer a retry; other errors repeat. */
export const mayAnswerLater = (error: unknown) =>
	!(error instanceof CapstanError) || error.status === 429 || error.status >= 500;

const MOST_RETRIES = 2;

/** How often a screen asks again for what it shows. Hidden tabs do not ask. */
const LIVE_MS = 30_000;
/** Answers that change by the acts of people only; a change here, or a return to the tab, asks again. */
const STEADY: ReadonlySet<unknown> = new Set<EndpointKey>([
	"GET /account",
	"GET /organization",
	"GET /organization/members",
	"GET /organization/roles",
	"GET /service/status",
]);

/** Whether freshness.tsx judges the screen by the answer. */
export const isLive = (queryKey: readonly unknown[]): boolean =>
	typeof queryKey[0] === "string" && queryKey[0].startsWith("GET ") && !STEADY.has(queryKey[0]);

export const queryClient = new QueryClient({
	queryCache: new QueryCache({ onError }),
	mutationCache: new MutationCache({ onError }),
	defaultOptions: {
		// A change that waited for the network would surprise people when it happens later.
		mutations: { networkMode: "always" },
		queries: {
			staleTime: 10_000,
			retry: (count, error) => count < MOST_RETRIES && mayAnswerLater(error),
			refetchInterval: ({ queryKey }) => (isLive(queryKey) ? LIVE_MS : false),
		},
	},
});

interface AskOptions {
	readonly enabled?: boolean;
	/** Another interval than that of a live screen, or false. */
	readonly everyMs?: number | false;
}

/** Queries an endpoint. The answer is cached until a change invalidates it. */
export function useAsk<const Key extends EndpointKey>(
	endpoint: Key,
	request: RequestOf<Key>,
	{ enabled = true, everyMs }: AskOptions = {},
): UseQueryResult<AnswerOf<Key>, Error> {
	return useQuery<AnswerOf<Key>, Error>({
		queryKey: [endpoint, request],
		queryFn: ({ signal }) => ask(endpoint, { ...request, signal }),
		enabled,
		...(everyMs === undefined ? {} : { refetchInterval: everyMs }),
	});
}

export interface Paged<Item> {
	readonly items: readonly Item[];
	readonly hasNext: boolean;
}

export type ItemOf<Answer> = Extract<Answer, readonly unknown[]> extends readonly (infer Item)[] ? Item : never;

/** One page of a list. The previous page stays visible while the next one loads. */
export function usePage<const Key extends EndpointKey>(
	endpoint: Key,
	request: RequestOf<Key>,
	page: number,
	{ enabled = true, everyMs }: AskOptions = {},
): UseQueryResult<Paged<ItemOf<AnswerOf<Key>>>, Error> {
	return useQuery<Paged<ItemOf<AnswerOf<Key>>>, Error>({
		queryKey: [endpoint, request, page],
		queryFn: ({ signal }) => askPage(endpoint, { ...request, signal }, page),
		placeholderData: keepPreviousData,
		enabled,
		...(everyMs === undefined ? {} : { refetchInterval: everyMs }),
	});
}

async function askPage<const Key extends EndpointKey>(
	endpoint: Key,
	request: RequestOf<Key>,
	page: number,
): Promise<Paged<ItemOf<AnswerOf<Key>>>> {
	let link: string | null = null;
	const client = createClient({
		baseUrl: location.origin,
		fetch: async (url, init) => {
			const response = await fetch(url, init);
			link = response.headers.get("link");
			return response;
		},
	});
	const query = { ...("query" in request ? (request.query as object) : {}), page: String(page) };
	const items = await confirmed(() => (client as Ask)(endpoint, { ...request, query }));
	return { items: items as ItemOf<AnswerOf<Key>>[], hasNext: link !== null };
}

const MOST_PAGES = 20;

/** A whole list, for choices that need every item. */
export function useAllPages<const Key extends EndpointKey>(
	endpoint: Key,
	request: RequestOf<Key>,
	{ enabled = true, everyMs }: AskOptions = {},
): UseQueryResult<readonly ItemOf<AnswerOf<Key>>[], Error> {
	return useQuery<readonly ItemOf<AnswerOf<Key>>[], Error>({
		queryKey: [endpoint, "all pages", request],
		enabled,
		queryFn: async () => {
			const items: ItemOf<AnswerOf<Key>>[] = [];
			for (let page = 0; page < MOST_PAGES; page++) {
				const answer = await askPage(endpoint, request, page);
				items.push(...answer.items);
				if (!answer.hasNext) break;
			}
			return items;
		},
		...(everyMs === undefined ? {} : { refetchInterval: everyMs }),
	});
}

/** The client with a request that is known to fit its endpoint. */
type Ask = (endpoint: EndpointKey, request: object) => Promise<unknown>;

export function ask<const Key extends EndpointKey>(endpoint: Key, request: RequestOf<Key>): Promise<AnswerOf<Key>> {
	return confirmed(() => (api as Ask)(endpoint, request)) as Promise<AnswerOf<Key>>;
}

/** Whether a `recent_sign_in_required` error accepts a passkey only. */
export const needsPasskey = ({ moreInfo }: CapstanError) => moreInfo.method === "passkey";

/** A session that ended under an open page: its forms must not be lost to the sign-in page. */
const hasEnded = (error: unknown) =>
	isSignedOut(error) && !isLeaving && queryClient.getQueryData(["GET /account", {}]) !== undefined;

/**
 * Repeats a request that needs a recent sign-in, or a session, after the user has confirmed their
 * identity. The first attempt changed nothing.
 */
async function confirmed(send: () => Promise<unknown>): Promise<unknown> {
	try {
		return await send();
	} catch (error) {
		if (!(error instanceof CapstanError)) throw error;
		const isOver = hasEnded(error);
		const isTooOld = error.code === "recent_sign_in_required";
		if (!(isOver || isTooOld) || !(await confirmIdentity(needsPasskey(error), isOver))) throw error;
		return send();
	}
}

const waitingApi = createClient({
	baseUrl: location.origin,
	fetch: (url, init) => {
		const headers = new Headers(init.headers as HeadersInit);
		headers.set("x-capstan-wait", "visible");
		return fetch(url, { ...init, headers });
	},
});

interface ChangeOptions {
	/** Resolves only when every isolate answers with the change, about four seconds later. */
	readonly waitsUntilVisible?: boolean;
}

/** Sends a change and invalidates every query afterwards. */
export function useChange<const Key extends EndpointKey>(
	endpoint: Key,
	onDone?: (answer: AnswerOf<Key>, request: RequestOf<Key>) => void,
	{ waitsUntilVisible = false }: ChangeOptions = {},
) {
	const client = useQueryClient();
	return useMutation<AnswerOf<Key>, Error, RequestOf<Key>>({
		mutationFn: (request) =>
			waitsUntilVisible
				? (confirmed(() => (waitingApi as Ask)(endpoint, request)) as Promise<AnswerOf<Key>>)
				: ask(endpoint, request),
		onSuccess: async (answer, request) => {
			withoutAsking(() => onDone?.(answer, request));
			await client.invalidateQueries();
		},
	});
}

export type { AnswerOf, RequestOf };

/**
 * The address of the server's `capstan` command for files that stay, such as CI jobs: its content
 * never changes.
 */
export const useCommandAddress = () =>
	useQuery({
		queryKey: ["command address"],
		queryFn: async () => {
			const { ok, url } = await fetch(`${location.origin}/capstan.tgz`, { method: "HEAD" });
			if (!ok) throw new Error("The server offers no command.");
			return url;
		},
		staleTime: Number.POSITIVE_INFINITY,
	});
