/**
 * Entries of the audit log as rows: the sentence, and below it, when it is open, the settings with
 * their old and new values and the whole entry.
 */
import { changeSentence, settingChanges } from "../../../src/domain/words/changes";
import { plainSentence, SERVICE_NAME } from "../../../src/domain/words/releases";
import type { AnswerOf } from "../api";
import type { ActorKind } from "./avatar";
import { Avatar } from "./avatar";
import { CopyChip, shortened } from "./copy-chip";
import { timeText } from "./dates";
import { type Entry, Rows } from "./rows";
import { Sentence } from "./sentence";

export type Change = Extract<AnswerOf<"GET /app/:app_id/audit">, readonly unknown[]>[number];

/** E.g. `deleted channel pr-128`. */
export const changeText = (change: Change): string => plainSentence(changeSentence(change));

function actorOf({ actor, details }: Change): { readonly name: string; readonly kind: ActorKind } {
	if (actor.type === "system") return { name: SERVICE_NAME, kind: "capstan" };
	if (typeof details.ci === "object" && details.ci !== null) return { name: actor.name, kind: "ci" };
	return { name: actor.name, kind: actor.type === "api_key" ? "key" : "person" };
}

/** An upload follows its registration: the two are one act. */
const UPLOADS = ["bundle.register", "bundle.upload", "bundle.set_manifest"];

/** The same act of the same actor on the same thing. */
function foldKeyOf(change: Change): string | undefined {
	if (refusalText(change) !== undefined || change.action === "access.denied") return undefined;
	const what = UPLOADS.includes(change.action) ? `upload of ${change.target.id}` : changeText(change);
	return JSON.stringify([change.actor.type, change.actor.id, change.app_id, what]);
}

export function ChangeList({
	changes,
	label = "Changes",
	showsApp = false,
}: {
	readonly changes: readonly Change[];
	readonly label?: string;
	/** In a list of several apps. */
	readonly showsApp?: boolean;
}) {
	const entryOf = (change: Change): Entry => {
		const { name, kind } = actorOf(change);
		const { app_id } = change;
		return {
			name: `${name} ${changeText(change)}`,
			picture: <Avatar name={name} kind={kind} />,
			sentence: (
				<>
					<Sentence
						who={name}
						parts={changeSentence(change)}
						// An entry of an app that was deleted or renamed leads nowhere.
						appId={change.action.endsWith(".delete") ? null : app_id}
					/>
					<Brief change={change} />
				</>
			),
			facts: showsApp && app_id !== null ? <bdi title={app_id}>{app_id}</bdi> : null,
			details: <WholeEntry change={change} />,
		};
	};
	return (
		<Rows
			label={label}
			items={changes}
			idOf={({ id }) => id}
			atOf={({ at }) => at}
			entryOf={entryOf}
			foldKeyOf={foldKeyOf}
			summaryOf={(folded) => {
				const [newest] = folded;
				return newest === undefined || !UPLOADS.includes(newest.action)
					? undefined
					: { ...entryOf(newest), count: `${folded.length} steps` };
			}}
		/>
	);
}

/** Why an uploaded zip was rejected, from the entry that deleted its registration. */
function refusalText({ details }: Change): string | undefined {
	const refused = details.bundle_invalid;
	return typeof refused === "object" && refused !== null && "message" in refused ? String(refused.message) : undefined;
}

const reasonOf = ({ details }: Change) => (typeof details.reason === "string" ? details.reason : undefined);

/** The settings that changed, if the sentence has not named the only one. */
function furtherSettings(change: Change) {
	// An upload fills in what its registration left open; that is no change of a setting.
	const found = UPLOADS.includes(change.action) ? [] : settingChanges(change);
	return found.length < 2 ? [] : found;
}

/** Follows the sentence in its line. */
function Brief({ change }: { readonly change: Change }) {
	const refusal = refusalText(change);
	if (refusal !== undefined) return <span className="t-bad"> · The upload was rejected: {refusal}</span>;
	const reason = reasonOf(change);
	if (reason !== undefined) {
		return (
			<span className="muted">
				{" "}
				· “<bdi>{reason}</bdi>”
			</span>
		);
	}
	const labels = furtherSettings(change).map((setting) => setting.label);
	return labels.length === 0 ? null : <span className="muted"> · {labels.join(", ")}</span>;
}

function WholeEntry({ change }: { readonly change: Change }) {
	const refusal = refusalText(change);
	const reason = reasonOf(change);
	const settings = furtherSettings(change);
	const sha256 = change.action === "bundle.upload" ? change.after?.sha256 : undefined;
	return (
		<>
			{refusal === undefined ? null : <div className="t-bad">The upload was rejected: {refusal}</div>}
			{refusal !== undefined || reason === undefined ? null : (
				<div>
					“<bdi>{reason}</bdi>”
				</div>
			)}
			{settings.length === 0 ? null : (
				<ul className="plain">
					{settings.map(({ field, label, before, after }) => (
						<li key={field} title={field}>
							{label}: {before ?? "none"} → {after ?? "none"}
						</li>
					))}
				</ul>
			)}
			<div className="row wrap small muted">
				<span>{timeText(change.at)}</span>
				{change.ip_address === null ? null : <span>from {change.ip_address}</span>}
				{typeof sha256 === "string" ? <CopyChip value={sha256} label={`SHA-256 ${shortened(sha256)}`} /> : null}
				<CopyChip value={change.request_id} label={`req ${change.request_id.slice(0, 8)}`} />
			</div>
			<details className="whole-entry">
				<summary>{change.action}</summary>
				<pre className="code">{JSON.stringify(change, undefined, 2)}</pre>
			</details>
		</>
	);
}
