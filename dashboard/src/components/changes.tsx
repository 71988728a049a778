/** Audit log entries as sentences, with the changed fields below, as plain text. */
import { Code, Stack, Text } from "@mantine/core";
import type { AnswerOf } from "../api";
import { Avatar } from "./avatar";
import { Time } from "./time";
import { Timeline, TimelineItem } from "./timeline";

export type Change = Extract<AnswerOf<"GET /app/:app_id/audit">, readonly unknown[]>[number];

const VERBS: Readonly<Record<string, string>> = {
	create: "created",
	register: "registered",
	upload: "uploaded",
	update: "changed",
	delete: "deleted",
	promote: "promoted a bundle to",
	rollback: "rolled back",
	reveal: "revealed the secret of",
	restore: "restored",
	add: "added",
	remove: "removed",
	accept: "accepted",
	override: "set an override for",
	unset: "removed the override of",
	set_manifest: "set the files of",
	change_email: "changed the address of",
	yield_platforms: "took over platforms from",
};

const THINGS: Readonly<Record<string, string>> = {
	api_key: "API key",
	organization: "organization",
};

/** E.g. `deleted channel pr-128`. */
export function changeText({ action, target }: Change): string {
	const [thing = action, ...rest] = action.split(".");
	const verb = rest.join(".");
	return `${VERBS[verb] ?? verb} ${THINGS[thing] ?? thing} ${target.name ?? target.id}`;
}

interface Difference {
	readonly field: string;
	readonly before: string;
	readonly after: string;
}

const shown = (value: unknown): string =>
	value === undefined || value === null ? "—" : typeof value === "string" ? value : JSON.stringify(value);

/** The changed fields of an entry. */
export function differences({ before, after }: Change): Difference[] {
	const fields = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})]);
	return [...fields]
		.map((field) => ({ field, before: shown(before?.[field]), after: shown(after?.[field]) }))
		.filter((difference) => difference.before !== difference.after);
}

/** The picture of the actor of a change: a person, Capstan itself, or a key. */
export function Actor({ actor }: { readonly actor: Change["actor"] }) {
	const kind = actor.type === "user" ? "person" : actor.type === "system" ? "capstan" : "key";
	return <Avatar name={actor.name} kind={kind} />;
}

export function ChangeList({ changes }: { readonly changes: readonly Change[] }) {
	return (
		<Timeline label="Changes">
			{changes.map((change) => (
				<TimelineItem key={change.id} picture={<Actor actor={change.actor} />} meta={<Time value={change.at} />}>
					<strong className="strong">{change.actor.name}</strong> {changeText(change)}
				</TimelineItem>
			))}
		</Timeline>
	);
}

/** Why an uploaded zip was rejected, from the entry that deleted its registration. */
function refusalText({ details }: Change): string | undefined {
	const refused = details.bundle_invalid;
	return typeof refused === "object" && refused !== null && "message" in refused ? String(refused.message) : undefined;
}

export function Differences({ change }: { readonly change: Change }) {
	const found = differences(change);
	const refusal = refusalText(change);
	if (found.length === 0 && refusal === undefined) return null;
	return (
		<Stack gap={2}>
			{refusal === undefined ? null : <Text size="xs">The upload was rejected: {refusal}</Text>}
			{found.map(({ field, before, after }) => (
				<Text size="xs" key={field}>
					<Code>{field}</Code>{" "}
					{change.before === null ? after : change.after === null ? before : `${before} → ${after}`}
				</Text>
			))}
		</Stack>
	);
}
