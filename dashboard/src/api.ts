/**
 * The dashboard's way to the API: the project's typed client over the session's cookie, and the hooks that keep what it answered. There is
 * no other way to the server; whatever the API refuses is shown in its own words.
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
import { confirmIdentity } from "./identity";

export { CapstanError } from "../../src/client/client";

export const api = createClient({ baseUrl: location.origin });

const here = () => encodeURIComponent(location.pathname + location.search);

let isLeaving = false;
// Whoever comes back gets the page as it was left.
addEventListener("pageshow", () => {
	isLeaving = false;
});

/** To another page, once: an answer that comes on the way must not lead elsewhere. */
export function leaveFor(address: string): void {
	if (isLeaving) return;
	isLeaving = true;
	location.assign(address);
}

/** Whoever is not signed in, or not any more, signs in and comes back to where they were. */
export function goToSignIn(): void {
	leaveFor(`/sign-in?next=${here()}`);
}

/** Without a session, or with one that is over; a wrong code is 401 as well, and the screen's to show. */
const isSignedOut = (error: unknown) =>
	error instanceof CapstanError && (error.code === "missing_api_key" || error.code === "invalid_session");
const onError = (error: unknown) => {
	if (isSignedOut(error)) goToSignIn();
};

/** A busy or restarting server may answer the next time; what was refused once is refused again. */
const mayAnswerLater = (error: unknown) =>
	!(error instanceof CapstanError) || error.status === 429 || error.status >= 500;

const MOST_RETRIES = 2;

export const queryClient = new QueryClient({
	queryCache: new QueryCache({ onError }),
	mutationCache: new MutationCache({ onError }),
	defaultOptions: {
		queries: { staleTime: 10_000, retry: (count, error) => count < MOST_RETRIES && mayAnswerLater(error) },
	},
});

export interface AskOptions {
	readonly enabled?: boolean;
	/** Asks again after so long, for as long as the screen is open. */
	readonly everyMs?: number | false;
}

/** What an endpoint answers, kept until something is changed. */
export function useAsk<const Key extends EndpointKey>(
	endpoint: Key,
	request: RequestOf<Key>,
	{ enabled = true, everyMs = false }: AskOptions = {},
): UseQueryResult<AnswerOf<Key>, Error> {
	return useQuery<AnswerOf<Key>, Error>({
		queryKey: [endpoint, request],
		queryFn: ({ signal }) => ask(endpoint, { ...request, signal }),
		enabled,
		refetchInterval: everyMs,
	});
}

export interface Paged<Item> {
	readonly items: readonly Item[];
	readonly hasNext: boolean;
}

type ItemOf<Answer> = Extract<Answer, readonly unknown[]> extends readonly (infer Item)[] ? Item : never;

/** One page of a list. While the next one comes the last one stays. */
export function usePage<const Key extends EndpointKey>(
	endpoint: Key,
	request: RequestOf<Key>,
	page: number,
	{ enabled = true, everyMs = false }: AskOptions = {},
): UseQueryResult<Paged<ItemOf<AnswerOf<Key>>>, Error> {
	return useQuery<Paged<ItemOf<AnswerOf<Key>>>, Error>({
		queryKey: [endpoint, request, page],
		queryFn: ({ signal }) => askPage(endpoint, { ...request, signal }, page),
		placeholderData: keepPreviousData,
		enabled,
		refetchInterval: everyMs,
	});
}

export async function askPage<const Key extends EndpointKey>(
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
	const items = await (client as Ask)(endpoint, { ...request, query });
	return { items: items as ItemOf<AnswerOf<Key>>[], hasNext: link !== null };
}

/** The client with a request that is known to fit its endpoint. */
type Ask = (endpoint: EndpointKey, request: object) => Promise<unknown>;

export function ask<const Key extends EndpointKey>(endpoint: Key, request: RequestOf<Key>): Promise<AnswerOf<Key>> {
	return confirmed(() => (api as Ask)(endpoint, request)) as Promise<AnswerOf<Key>>;
}

/** True of `recent_sign_in_required` where only a passkey will do. */
export const needsPasskey = ({ moreInfo }: CapstanError) => moreInfo.method === "passkey";

/** Sends a request that needs a recent sign-in once more when the reader has confirmed who they are; the first one changed nothing. */
async function confirmed(send: () => Promise<unknown>): Promise<unknown> {
	try {
		return await send();
	} catch (error) {
		const isTooOld = error instanceof CapstanError && error.code === "recent_sign_in_required";
		if (!isTooOld || !(await confirmIdentity(needsPasskey(error)))) throw error;
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

export interface ChangeOptions {
	/** The answer comes when every device's next check is answered with the change, which takes some seconds. */
	readonly waitsUntilVisible?: boolean;
}

/** A change; everything that is shown is asked anew afterwards. */
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
			onDone?.(answer, request);
			await client.invalidateQueries();
		},
	});
}

export type { AnswerOf, RequestOf };
