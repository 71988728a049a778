/** The apps that this browser opened, the last one first. */
const NAME = "capstan.apps";
const MOST = 20;

export function visitedApps(): readonly string[] {
	try {
		const stored: unknown = JSON.parse(localStorage.getItem(NAME) ?? "[]");
		return Array.isArray(stored) ? stored.filter((one) => typeof one === "string") : [];
	} catch {
		return [];
	}
}

export function storeVisitedApp(appId: string): void {
	try {
		const others = visitedApps().filter((one) => one !== appId);
		localStorage.setItem(NAME, JSON.stringify([appId, ...others].slice(0, MOST)));
	} catch {
		// Without storage the list has the server's order.
	}
}
