/**
 * Preview of a channel change: how many devices would change version and which devices the bundle
 * cannot reach. Counting starts automatically. A change of a public channel waits for the count; if
 * the count fails or is slow, the user may continue without it.
 */

import { Alert, Button, Checkbox, Group, Loader, Stack, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { EFFECT_DAYS } from "../../../src/domain/defaults";
import { ask, CapstanError, type RequestOf } from "../api";
import { Problem } from "./answer";
import { movesOf, type Plan, titleOf, unreachedOf } from "./change-counts";
import { Misfits } from "./native-packages";
import { countOf } from "./size";

type ChangeBody = RequestOf<"POST /channel/what_if">["body"];

/** Debounce while a version is typed. */
const TYPING_MS = 350;
/** The count of 5,000 devices takes about a second. */
const SLOW_MS = 8_000;
const MOST_MOVES = 6;
/** Errors that the change itself would get as well. */
const REFUSALS = [
	"bundle_incompatible",
	"bundle_not_found",
	"bundle_not_ready",
	"bundle_not_signed",
	"channel_delta_required",
	"channel_has_no_platform",
	"channel_zip_required",
	"invalid_request",
	"missing_rollout_version",
	"rollout_running",
	"setting_not_supported",
];

interface CountedChange {
	/** Whether the change may be sent now. */
	readonly isReady: boolean;
	/** The count for the current form; undefined until it is known. */
	readonly plan: Plan | undefined;
	/** The count for the form as it was before, until the current one is known. */
	readonly lastPlan: Plan | undefined;
	/** Code of the error that the change itself would get. */
	readonly refusal: string | undefined;
	/** The counting itself: that it runs, why it failed, and how to continue without it. */
	readonly status: ReactNode;
}

/** @param body null while the form is incomplete */
export function useChangePlan(body: ChangeBody | null, isRequired: boolean): CountedChange {
	const wanted = body === null ? "" : JSON.stringify(body);
	const [counted] = useDebouncedValue(wanted, TYPING_MS);
	const [withoutCount, setWithoutCount] = useState("");
	const query = useQuery<Plan, Error>({
		queryKey: ["POST /channel/what_if", "preview", counted],
		queryFn: () => ask("POST /channel/what_if", { body: JSON.parse(counted) as ChangeBody }),
		enabled: counted !== "",
		// Old numbers stay until the new ones are known, but never those of another channel.
		placeholderData: (previous, query) =>
			channelOf(String(query?.queryKey[2] ?? "")) === channelOf(counted) ? previous : undefined,
		// Never stale, because each count draws a new rollout cohort and the numbers would move while the
		// user reads them.
		staleTime: Number.POSITIVE_INFINITY,
		gcTime: 0,
		retry: false,
	});
	const isCounting = wanted !== "" && (counted !== wanted || query.isFetching);
	const isSlow = useIsLongerThan(SLOW_MS, isCounting ? wanted : "");
	const isCurrent = counted === wanted && wanted !== "" && !query.isFetching;
	const plan = isCurrent && !query.isPlaceholderData ? query.data : undefined;
	const error = counted === wanted && !query.isFetching ? query.error : null;
	const isRefused = error instanceof CapstanError && REFUSALS.includes(error.code);
	const mayContinue = !isRefused && (error !== null || isSlow) && plan === undefined;
	const continues = mayContinue && withoutCount === wanted;
	return {
		isReady: wanted !== "" && !isRefused && (!isRequired || plan !== undefined || continues),
		plan,
		lastPlan: wanted === "" || error !== null ? undefined : query.data,
		refusal: isRefused ? error.code : undefined,
		status: (
			<>
				{isCounting ? (
					<Group gap="sm" role="status" wrap="nowrap">
						<Loader size="xs" aria-hidden="true" />
						<Text size="sm" c="dimmed">
							{isSlow
								? "Counting takes longer than usual…"
								: "Counting the devices that will change version. Nothing is changed yet."}
						</Text>
					</Group>
				) : null}
				{error !== null && isRefused ? <Problem error={error} /> : null}
				{error !== null && !isRefused ? (
					<Alert color="orange" title="Could not count the devices" role="alert">
						<Stack gap="xs" align="flex-start">
							<Text size="sm">{reasonOf(error)}</Text>
							<Button size="xs" variant="default" onClick={() => void query.refetch()}>
								Try again
							</Button>
						</Stack>
					</Alert>
				) : null}
				{isRequired && mayContinue ? (
					<Checkbox
						mt="xs"
						label="Continue without knowing how many devices will change version"
						checked={continues}
						onChange={(event) => setWithoutCount(event.currentTarget.checked ? wanted : "")}
					/>
				) : null}
			</>
		),
	};
}

const channelOf = (wanted: string) => (wanted === "" ? "" : (JSON.parse(wanted) as ChangeBody).channel);

/** With the counts as a note. */
export function useChangePreview(body: ChangeBody | null, isRequired: boolean) {
	const { isReady, plan, status } = useChangePlan(body, isRequired);
	return {
		isReady,
		view: (
			<div aria-live="polite" className="sec">
				{plan?.compatibility == null ? null : <Misfits compatibility={plan.compatibility} />}
				{plan === undefined ? null : <Counted plan={plan} channel={body?.channel ?? ""} />}
				{status}
			</div>
		),
	};
}

function reasonOf(error: Error): string {
	if (!(error instanceof CapstanError)) return "The server did not answer. Check your connection.";
	if (error.status === 403) return "Your role cannot list devices.";
	return error.message;
}

/** Whether the text has been unchanged and not empty for this long. */
function useIsLongerThan(ms: number, text: string): boolean {
	const [late, setLate] = useState("");
	useEffect(() => {
		if (text === "") return;
		const timer = setTimeout(() => setLate(text), ms);
		return () => clearTimeout(timer);
	}, [text, ms]);
	return text !== "" && late === text;
}

function Counted({ plan, channel }: { readonly plan: Plan; readonly channel: string }) {
	const { devices, unjudged, sampled, outcomes } = plan;
	const moves = movesOf(plan);
	const moving = moves.reduce((sum, move) => sum + move.devices, 0);
	const unreached = unreachedOf(plan, channel);
	return (
		<Alert color={moving === 0 && unreached.length > 0 ? "orange" : "blue"} title={titleOf(plan, moving)} role="status">
			<Stack gap={4}>
				<Text size="sm">
					{sampled
						? `Estimated from ${countOf(devices, "device")}, a random sample of those seen in the last ${EFFECT_DAYS} days.`
						: `Counts devices seen in the last ${EFFECT_DAYS} days.`}
				</Text>
				{moves.slice(0, MOST_MOVES).map(({ key, devices, text }) => (
					<Text size="sm" key={key}>
						{countOf(devices, "device")}: {text}
					</Text>
				))}
				{moves.length > MOST_MOVES ? <Text size="sm">And {moves.length - MOST_MOVES} smaller groups.</Text> : null}
				{unreached.map(({ reason, devices }) => (
					<Text size="sm" key={reason}>
						<strong>
							{countOf(devices, "device")} on {channel} {devices === 1 ? "does" : "do"} not get it:
						</strong>{" "}
						{reason}.
					</Text>
				))}
				{unjudged > 0 ? (
					<Text size="sm" c="dimmed">
						{countOf(unjudged, "device")} reported too little to be included.
					</Text>
				) : null}
				{plan.cohort_is_drawn_anew && outcomes.length > 0 ? (
					<Text size="sm" c="dimmed">
						Starting the rollout selects its devices, so the final numbers may differ slightly.
					</Text>
				) : null}
			</Stack>
		</Alert>
	);
}
