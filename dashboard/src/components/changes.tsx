/** Entries of the audit log as sentences: settings with their old and new values, and the whole entry folded. */
import type { ReactNode } from "react";
import { changeSentence, settingChanges } from "../../../src/domain/words/changes";
import { plainSentence, SERVICE_NAME } from "../../../src/domain/words/releases";
import type { AnswerOf } from "../api";
import type { ActorKind } from "./avatar";
import { Avatar } from "./avatar";
import { CopyChip, shortened } from "./copy-chip";
import { Sentence } from "./sentence";
import { Time } from "./time";
import { Timeline, TimelineItem } from "./timeline";

export type Change = Extract<AnswerOf<"GET /app/:app_id/audit">, readonly unknown[]>[number];

/** E.g. `deleted channel pr-128`. */
export const changeText = (change: Change): string => plainSentence(changeSentence(change));

function actorOf({ actor, details }: Change): { readonly name: string; readonly kind: ActorKind } {
	if (actor.type === "system") return { name: SERVICE_NAME, kind: "capstan" };
	if (typeof details.ci === "object" && details.ci !== null) return { name: actor.name, kind: "ci" };
	return { name: actor.name, kind: actor.type === "api_key" ? "key" : "person" };
}

export function ChangeList({
	changes,
	label = "Changes",
	action,
	isWhole = false,
}: {
	readonly changes: readonly Change[];
	readonly label?: string;
	/** A control beside an entry. */
	readonly action?: (change: Change) => ReactNode;
	/** With the settings and the folded entry. */
	readonly isWhole?: boolean;
}) {
	return (
		<Timeline label={label}>
			{changes.map((change) => {
				const { name, kind } = actorOf(change);
				return (
					<TimelineItem
						key={change.id}
						picture={<Avatar name={name} kind={kind} />}
						note={isWhole ? <Differences change={change} /> : null}
						meta={
							<>
								<Time value={change.at} />
								{isWhole && change.ip_address !== null ? <span>from {change.ip_address}</span> : null}
							</>
						}
						action={action?.(change)}
					>
						<Sentence
							who={name}
							parts={changeSentence(change)}
							// An entry of an app that was deleted or renamed leads nowhere.
							appId={change.action.endsWith(".delete") ? null : change.app_id}
						/>
						{isWhole ? <WholeEntry change={change} /> : null}
					</TimelineItem>
				);
			})}
		</Timeline>
	);
}

/** Why an uploaded zip was rejected, from the entry that deleted its registration. */
function refusalText({ details }: Change): string | undefined {
	const refused = details.bundle_invalid;
	return typeof refused === "object" && refused !== null && "message" in refused ? String(refused.message) : undefined;
}

function Differences({ change }: { readonly change: Change }) {
	const refusal = refusalText(change);
	const reason = typeof change.details.reason === "string" ? change.details.reason : undefined;
	// An upload fills in what its registration left open; that is no change of a setting.
	const found = change.action === "bundle.upload" ? [] : settingChanges(change);
	const sha256 = change.action === "bundle.upload" ? change.after?.sha256 : undefined;
	return (
		<>
			{refusal === undefined ? null : <div>The upload was rejected: {refusal}</div>}
			{refusal !== undefined || reason === undefined ? null : <div>“{reason}”</div>}
			{typeof sha256 === "string" ? <CopyChip value={sha256} label={`SHA-256 ${shortened(sha256)}`} /> : null}
			{found.length < 2
				? null
				: found.map(({ field, label, before, after }) => (
						<div key={field} title={field}>
							{label}: {before ?? "none"} → {after ?? "none"}
						</div>
					))}
		</>
	);
}

function WholeEntry({ change }: { readonly change: Change }) {
	return (
		<details className="whole-entry">
			<summary>{change.action}</summary>
			<pre className="code">{JSON.stringify(change, undefined, 2)}</pre>
		</details>
	);
}
