/**
 * The choices in the release dialog: those of the person, else those that the page or the app
 * proposes, and the request that follows from them. Nothing is preselected for devices before their
 * number is known.
 */
import { useState } from "react";
import { usePage } from "../api";
import { useChangePlan } from "../components/change-preview";
import { useVerdict } from "../upload/bundle-upload";
import {
	partlyRolledOut,
	proposedChannel,
	proposedVersion,
	type Rules,
	releaseBody,
	rolloutEffect,
	usualWay,
	type Way,
} from "./release-plan";
import { useBundle, useChannelDevices, useChannels, useCurrent, useRights } from "./use-release";

const FIRST_SHARE = 5;

export interface ReleaseSubject {
	readonly appId: string;
	readonly orgId: string | undefined;
	/** The bundle that the page is about. */
	readonly version?: string | undefined;
	/** The channel that the page is about. */
	readonly channel?: string | undefined;
	/** A zip that was dropped on the page. */
	readonly file?: File | null;
	/** False for a role on the channel only: no bundles are suggested and no devices are counted. */
	readonly seesApp?: boolean;
}

/** A bundle of the app, or a zip that is uploaded first. */
function useBundleChoice({ appId, version: given = "", file: dropped = null, seesApp = true }: ReleaseSubject) {
	const [file, setFile] = useState<File | null>(dropped);
	const verdict = useVerdict(file);
	const bundles = usePage("GET /bundle", { query: { app_id: appId } }, 0, { enabled: seesApp });
	const names = bundles.data?.items.map((bundle) => bundle.name) ?? [];
	const [chosen, setChosen] = useState(given);
	const [typed, setTyped] = useState<string | undefined>();
	const version = file === null ? chosen : (typed ?? proposedVersion(names));
	const record = useBundle(appId, chosen, seesApp && file === null && names.includes(chosen));
	const [typedNote, setNote] = useState<string | undefined>();
	const noteBefore = file === null ? (record?.comment ?? "") : "";
	const note = typedNote ?? noteBefore;
	const isNoteChanged = record !== undefined && typedNote !== undefined && note.trim() !== noteBefore;
	return {
		file,
		verdict,
		version,
		chosen,
		record,
		note,
		/** The new note of a bundle that exists; undefined: it stays. */
		changedNote: isNoteChanged ? note.trim() : undefined,
		isVersionKnown: !bundles.isPending,
		isTaken: file !== null && names.includes(version),
		isDirty: file !== null || (typedNote ?? "").trim() !== "",
		setChosen,
		setTyped,
		setNote,
		take(next: File | null) {
			setFile(next);
			setTyped(undefined);
		},
	};
}

function useChannelChoice({ appId, orgId, channel: given, seesApp = true }: ReleaseSubject) {
	const channels = useChannels(appId, given, seesApp);
	const [chosen, setName] = useState(given);
	const name = chosen ?? (channels === undefined ? "" : proposedChannel(channels));
	const channel = useCurrent(
		appId,
		channels?.find((known) => known.name === name),
	);
	const rights = useRights(appId, orgId, channel);
	const { known, isCounting } = useChannelDevices(appId, channel, seesApp);
	return {
		channels,
		name,
		channel,
		known,
		isCounting,
		/** Undefined while unknown. */
		devices: channel === undefined ? 0 : known?.channel_devices,
		rights,
		/** The app has no channel, so the release creates one. */
		isNew: channels !== undefined && channels.length === 0,
		setName,
	};
}

/** All devices at once, or a part of them, and the rules of the rollout. */
function useWayChoice({ channel, rights, devices, isCounting }: ReturnType<typeof useChannelChoice>, version: string) {
	const [chosen, setWay] = useState<Way | undefined>();
	const [changed, setChanged] = useState<Partial<Rules>>({});
	const [skipsPackages, setSkipsPackages] = useState(false);
	const preselected =
		channel === undefined || rights.maySet === undefined || isCounting
			? undefined
			: usualWay(channel, version, devices, rights.maySet);
	const way = channel === undefined ? "all" : (chosen ?? preselected);
	const rules: Rules = {
		share: FIRST_SHARE,
		limitBps: channel?.autoPauseFailureRateBps ?? 0,
		countsNew: channel?.rolloutCountNewDevices ?? false,
		...changed,
	};
	return {
		way,
		rules,
		isStaged: way === "steps" || way === "share",
		isComplete: way !== undefined && (way !== "share" || rules.share !== ""),
		skipsPackages,
		setWay,
		setSkipsPackages,
		changeRules: (rule: Partial<Rules>) => setChanged({ ...changed, ...rule }),
		reset() {
			setWay(undefined);
			setChanged({});
			setSkipsPackages(false);
		},
	};
}

export function useReleaseChoice(subject: ReleaseSubject) {
	const { appId, seesApp = true } = subject;
	const bundle = useBundleChoice(subject);
	const target = useChannelChoice(subject);
	const how = useWayChoice(target, bundle.version);
	const { version } = bundle;
	const { name, channel, rights } = target;
	const isAimed = version !== "" && (channel !== undefined || target.isNew);
	const isComplete = isAimed && how.isComplete;
	const bodyFor = (way: Way | undefined) => ({
		...releaseBody({ appId, name, channel }, version, way, how.rules, rights.maySet === true),
		...(how.skipsPackages ? { requireCompatibleBundle: false } : {}),
	});
	return {
		appId,
		seesApp,
		bundle,
		target,
		how,
		isAimed,
		isComplete,
		needsApproval: channel?.requires_approval === true,
		/** A rollout of another version forbids steps until it ends. */
		isBlocked: how.way !== "all" && channel !== undefined && partlyRolledOut(channel, version) !== undefined,
		effect:
			channel === undefined || !isComplete || how.way === undefined
				? undefined
				: rolloutEffect(channel, { version, way: how.way, percentage: Number(how.rules.share) }),
		bodyFor,
		choose(next: string) {
			target.setName(next);
			how.reset();
		},
	};
}

export type ReleaseChoice = ReturnType<typeof useReleaseChoice>;

/** Who changes version: by the chosen way, and if every device got the bundle at once. */
export function usePlans({ seesApp, bundle, target, how, isAimed, isComplete, bodyFor }: ReleaseChoice) {
	const isCounted = seesApp && bundle.file === null;
	const preview = useChangePlan(isComplete && isCounted ? bodyFor(how.way) : null, target.channel?.public ?? true);
	const whole = useChangePlan(isAimed && isCounted ? bodyFor("all") : null, false);
	return {
		isCounted,
		preview,
		whole,
		shown: isCounted && isAimed && preview.refusal === undefined ? (whole.plan ?? whole.lastPlan) : undefined,
	};
}

export type Plans = ReturnType<typeof usePlans>;
