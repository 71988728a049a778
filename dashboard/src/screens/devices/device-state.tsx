/**
 * The state of a device in a list: its last failure, whether it runs what its channel serves, and
 * an override. A device that has what it should have has no badge.
 */

import { BUILTIN } from "../../../../src/domain/updates/model";
import { compareVersions, readVersion } from "../../../../src/domain/updates/version";
import type { AnswerOf } from "../../api";
import { Badge, Dot, type Tone } from "../../components/badge";
import type { Channel } from "../../components/channel-badges";
import { timeText } from "../../components/dates";

export type ListedDevice = AnswerOf<"GET /device?totals=true">["devices"][number];

interface State {
	readonly word: "Failed" | "Behind" | "Pinned";
	readonly tone: Tone;
	readonly because: string;
}

/** @param channel that serves the device; undefined: it is not known */
export function statesOf(device: ListedDevice, channel: Channel | undefined): readonly State[] {
	const { last_failure: failure, override_channel, override_version, version_name, version_build } = device;
	const states: State[] = [];
	if (failure !== null) {
		states.push({
			word: "Failed",
			tone: "bad",
			because: `${failure.version ?? "A bundle"} failed, ${timeText(failure.at)}`,
		});
	}
	const wanted = override_version ?? channel?.version?.name;
	const runs = version_name === BUILTIN ? version_build : version_name;
	if (wanted !== undefined && runs !== null && isOlder(runs, wanted)) {
		states.push({
			word: "Behind",
			tone: "warn",
			because: override_version === null ? `${wanted} is live on ${channel?.name}` : `${wanted} is set for it`,
		});
	}
	const set = [
		...(override_channel === null ? [] : [`Channel override: ${override_channel}`]),
		...(override_version === null ? [] : [`Bundle override: ${override_version}`]),
	];
	if (set.length > 0) states.push({ word: "Pinned", tone: "info", because: set.join(", ") });
	return states;
}

function isOlder(version: string, than: string): boolean {
	const [one, other] = [readVersion(version), readVersion(than)];
	return one !== null && other !== null && compareVersions(one, other) < 0;
}

export function StateDot({ states: [first] }: { readonly states: readonly State[] }) {
	return (
		<span className="wide">
			<Dot {...(first === undefined ? {} : { tone: first.tone })} />
		</span>
	);
}

export function StateBadges({ states }: { readonly states: readonly State[] }) {
	return states.map(({ word, tone, because }) => (
		<Badge key={word} tone={word === "Pinned" ? undefined : tone} title={because}>
			{word}
			<span className="sr">: {because}</span>
		</Badge>
	));
}
