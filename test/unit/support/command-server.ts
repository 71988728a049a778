/**
 * A network in which every server offers the command and nothing else answers, so that `init`
 * writes jobs and asks no provider, and in which no test waits for the next try of a request.
 */
import { vi } from "vitest";

/** The address of the command below that of its server; its bytes never change. */
export const COMMAND = "/command/capstan-1.0.0-0a1b2c3d4e5f6a7b.tgz";

/** For `beforeEach`. */
export function stubCommandServer(): () => void {
	const restoreTimers = skipPauses();
	vi.stubGlobal("fetch", async (input: string | URL | Request) => {
		const { origin, pathname } = new URL(input instanceof Request ? input.url : input);
		if (pathname !== "/capstan.tgz") throw new TypeError("no network");
		return new Response(null, { status: 302, headers: { location: origin + COMMAND } });
	});
	return () => {
		vi.unstubAllGlobals();
		restoreTimers();
	};
}

/** A pause ends as soon as nothing else is to be done. The clock passes it. */
function skipPauses(): () => void {
	vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
	vi.setTimerTickMode("nextTimerAsync");
	return () => vi.useRealTimers();
}
