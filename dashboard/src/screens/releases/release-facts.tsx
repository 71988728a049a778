/**
 * Small facts of a release: its author, approver, time and commit in one line, and its timeline
 * with what was before and after.
 */

import { Avatar } from "../../components/avatar";
import { Card } from "../../components/card";
import { momentText, timeText } from "../../components/dates";
import { Icon } from "../../components/icon";
import { TextLink } from "../../components/link";
import { IconExternalLink, IconGitCommit, IconGitPullRequest } from "../../icons";
import { releasePath } from "../../paths";
import { actorOf } from "../../releases";
import { entryText, nameOf, type Release } from "./release-texts";

const COMMIT_LETTERS = 7;

export function Moment({ value, nowMs }: { readonly value: string; readonly nowMs: number }) {
	return (
		<time dateTime={value} title={timeText(value)} className="nowrap">
			{momentText(value, nowMs)}
		</time>
	);
}

/** The link of a bundle is what a person or a CI job entered, so only web addresses become one. */
export function Commit({ release: { commit, link } }: { readonly release: Release }) {
	if (commit === null) return null;
	const text = <span className="mono">{commit.slice(0, COMMIT_LETTERS)}</span>;
	const isWeb = link !== null && URL.canParse(link) && /^https?:$/.test(new URL(link).protocol);
	return isWeb ? (
		<a href={link} target="_blank" rel="noopener noreferrer nofollow">
			{text}
		</a>
	) : (
		text
	);
}

export function ReleaseFacts({ release, nowMs }: { readonly release: Release; readonly nowMs: number }) {
	const { name, kind } = actorOf(release);
	const { proposed_by, ci, commit, notes, began_at } = release;
	return (
		<div className="stack">
			{notes === null ? null : <span className="soft">“{notes}”</span>}
			<div className="metaline">
				{proposed_by === null ? null : (
					<span>
						<Avatar name={proposed_by.name ?? "?"} />
						proposed by {proposed_by.name ?? "a team member"}
					</span>
				)}
				<span>
					<Avatar name={name} kind={kind} />
					{proposed_by === null ? name : `approved by ${name}`}
				</span>
				<Moment value={began_at} nowMs={nowMs} />
				{commit === null ? null : (
					<span>
						<Icon of={IconGitCommit} size="s" />
						<Commit release={release} />
					</span>
				)}
				{ci?.run_url == null ? null : (
					<a href={ci.run_url} target="_blank" rel="noopener noreferrer nofollow">
						<Icon of={ci.number === null ? IconExternalLink : IconGitPullRequest} size="s" />
						{ci.number === null ? `${ci.repository ?? "CI"} run ${ci.run_id ?? ""}` : `#${ci.number}`}
					</a>
				)}
			</div>
		</div>
	);
}

export function ReleaseEntries({
	appId,
	release,
	nowMs,
}: {
	readonly appId: string;
	readonly release: Release;
	readonly nowMs: number;
}) {
	const { entries, before, after, channel } = release;
	const linked = (other: { readonly id: number; readonly version: string | null }) => (
		<TextLink to={releasePath(appId, channel.name, other.id)}>
			{nameOf(other.version)} on {channel.name}
		</TextLink>
	);
	return (
		<Card title="Timeline of this release" isPadded={false}>
			<ol className="rel-rows" aria-label="Timeline of this release">
				{entries.map((entry) => {
					const { name, kind } = actorOf(entry);
					return (
						<li key={entry.id}>
							<span className="muted num small">
								<Moment value={entry.at} nowMs={nowMs} />
							</span>
							<Avatar name={name} kind={kind} />
							<span className="stack">
								<span>
									<strong className="strong">{name}</strong> {entryText(entry)}
								</span>
								{entry.reason === null ? null : <span className="small muted">{entry.reason}</span>}
							</span>
						</li>
					);
				})}
			</ol>
			<p className="small muted pad">
				Before: {before === null ? "nothing" : linked(before)}. After: {after === null ? "nothing yet" : linked(after)}.
			</p>
		</Card>
	);
}
