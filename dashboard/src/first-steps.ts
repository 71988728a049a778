/**
 * How far an app is on its first steps: a bundle, a release, a device. Looks again while the page
 * is visible, so a command in a terminal or a start of the app on a phone shows here within
 * seconds. An app that is through is not asked about again in this browser.
 */
import { useEffect, useState } from "react";
import { type AnswerOf, type ItemOf, usePage } from "./api";

const NAME = "capstan.started";
const MOST = 200;
/** For the checklist, and for the link to it on other screens. */
const LOOK_AGAIN_MS = { card: 3_000, link: 15_000 } as const;

function startedApps(): readonly string[] {
	try {
		const stored: unknown = JSON.parse(localStorage.getItem(NAME) ?? "[]");
		return Array.isArray(stored) ? stored.filter((one) => typeof one === "string") : [];
	} catch {
		return [];
	}
}

function storeStarted(appId: string): void {
	try {
		const others = startedApps().filter((one) => one !== appId);
		localStorage.setItem(NAME, JSON.stringify([appId, ...others].slice(0, MOST)));
	} catch {
		// Without storage each visit asks again.
	}
}

export interface FirstSteps {
	/** The newest bundle. */
	readonly bundle: ItemOf<AnswerOf<"GET /bundle">> | undefined;
	readonly hasRelease: boolean;
	readonly device: ItemOf<AnswerOf<"GET /device">> | undefined;
	/** Undefined while it is not known. */
	readonly isDone: boolean | undefined;
}

/**
 * @param appId undefined asks nothing
 * @param isShown asks although the app is through
 */
export function useFirstSteps(
	appId: string | undefined,
	shows: keyof typeof LOOK_AGAIN_MS,
	isShown = false,
): FirstSteps {
	const [wasDone] = useState(() => appId !== undefined && startedApps().includes(appId));
	const [isDone, setDone] = useState(wasDone);
	const query = { app_id: appId ?? "" };
	const options = {
		enabled: appId !== undefined && (!wasDone || isShown),
		...(isDone ? {} : { everyMs: LOOK_AGAIN_MS[shows] }),
	};
	const bundles = usePage("GET /bundle", { query }, 0, options).data?.items;
	const channels = usePage("GET /channel", { query }, 0, options).data?.items;
	const device = usePage("GET /device", { query }, 0, options);
	const hasRelease =
		channels?.some(({ version, rollout_version_info }) => version !== null || rollout_version_info !== null) === true;
	const first = device.data?.items[0];
	const isThrough = hasRelease && first !== undefined;
	useEffect(() => {
		if (!isThrough || appId === undefined) return;
		setDone(true);
		storeStarted(appId);
	}, [appId, isThrough]);
	const isKnown = bundles !== undefined && channels !== undefined && device.data !== undefined;
	return {
		bundle: bundles?.[0],
		hasRelease,
		device: first,
		isDone: isDone || isThrough ? true : isKnown ? false : undefined,
	};
}
