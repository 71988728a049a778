/**
 * Releases as a timeline: who released what to which channel, with the reason, the commit and the
 * CI job, and a way back beside each bundle that a channel can return to.
 */
import { Button, Menu } from "@mantine/core";
import { useState } from "react";
import { SERVICE_NAME } from "../../../src/domain/words/releases";
import {
	IconAlertTriangle,
	IconArrowBackUp,
	IconBolt,
	IconDotsVertical,
	IconExternalLink,
	IconGitCommit,
	IconTrash,
} from "../icons";
import { releasePath } from "../paths";
import { actorOf, type Release, sentenceOf, type useReleases } from "../releases";
import { Avatar } from "./avatar";
import { Badge } from "./badge";
import { Icon } from "./icon";
import { TextLink } from "./link";
import { RollBack } from "./roll-back";
import { Sentence } from "./sentence";
import { countText, shareText } from "./size";
import { Time } from "./time";
import { Spot, Timeline, TimelineItem } from "./timeline";

/** Installs of a bundle on a channel, for the failures beside its release. */
export interface Outcome {
	readonly version: string;
	readonly channel: string | null;
	readonly install: number;
	readonly fail: number;
}

const COMMIT_LETTERS = 7;

export function ReleaseTimeline({
	appId,
	releases,
	outcomes = [],
	limitOf,
	withChannel = true,
	mayRollBack,
	label,
}: {
	readonly appId: string;
	readonly releases: readonly Release[];
	readonly outcomes?: readonly Outcome[];
	/** The share of failures that a channel allows, by its name; undefined: not known. */
	readonly limitOf: (channel: string) => number | undefined;
	/** False on the page of the channel. */
	readonly withChannel?: boolean;
	readonly mayRollBack: boolean;
	readonly label: string;
}) {
	const [target, setTarget] = useState<Release | undefined>();
	// One button for each bundle of a channel, beside its newest entry.
	// The way back that a person looks for is a button; those further back are in a menu.
	const offered = new Map<string, "button" | "menu">();
	const hasButton = new Set<string>();
	const seen = new Set<string>();
	// A bundle that one channel left is not offered as a good one on another.
	const left = new Set(releases.filter(({ was_rolled_back }) => was_rolled_back).map(({ version }) => version));
	for (const { id, channel, version, can_roll_back } of releases) {
		const key = JSON.stringify([channel.name, version]);
		if (!can_roll_back || seen.has(key)) continue;
		seen.add(key);
		const isFirst = !left.has(version) && !hasButton.has(channel.name);
		offered.set(id, isFirst ? "button" : "menu");
		if (isFirst) hasButton.add(channel.name);
	}
	return (
		<>
			<Timeline label={label}>
				{releases.map((release) => (
					<Entry
						key={release.id}
						appId={appId}
						release={release}
						outcome={outcomes.find(
							({ version, channel }) => version === release.version && channel === release.channel.name,
						)}
						limit={limitOf(release.channel.name)}
						withChannel={withChannel}
						wasLeft={left.has(release.version)}
						wayBack={offered.get(release.id)}
						onRollBack={mayRollBack && offered.has(release.id) ? () => setTarget(release) : undefined}
					/>
				))}
			</Timeline>
			{target === undefined ? null : (
				<RollBack
					appId={appId}
					channel={target.channel.name}
					version={target.version}
					onClose={() => setTarget(undefined)}
				/>
			)}
		</>
	);
}

const isRollback = (action: string) => action === "rollback" || action === "rollout_rolled_back";

function Entry({
	appId,
	release,
	outcome,
	limit = 1,
	withChannel,
	wasLeft,
	wayBack,
	onRollBack,
}: {
	readonly appId: string;
	readonly release: Release;
	readonly outcome: Outcome | undefined;
	readonly limit: number | undefined;
	readonly withChannel: boolean;
	/** A rollback left the bundle, on this channel or another. */
	readonly wasLeft: boolean;
	readonly wayBack: "button" | "menu" | undefined;
	readonly onRollBack: (() => void) | undefined;
}) {
	const { name, kind } = actorOf(release);
	const { version, reason, notes, is_live, was_rolled_back, bundle_deleted, ci, commit, link, proposed_by } = release;
	const target = version ?? "the store build";
	const said = reason ?? (release.action.startsWith("rollout_") && release.action !== "rollout_started" ? null : notes);
	const installs = outcome === undefined ? 0 : outcome.install + outcome.fail;
	const isFailing = outcome !== undefined && installs > 0 && outcome.fail / installs > limit;
	return (
		<TimelineItem
			picture={
				isRollback(release.action) ? <Spot icon={IconArrowBackUp} tone="warn" /> : <Avatar name={name} kind={kind} />
			}
			note={said === null ? null : kind === "capstan" ? said : `“${said}”`}
			meta={
				<>
					{release.release_id === null ? (
						<Time value={release.at} />
					) : (
						<TextLink to={releasePath(appId, release.channel.name, release.release_id)}>
							<Time value={release.at} />
							<span className="sr"> View release</span>
						</TextLink>
					)}
					{kind === "capstan" ? (
						<span>
							<Icon of={IconBolt} />
							Automatic
						</span>
					) : null}
					{proposed_by === null ? null : <span>proposed by {proposed_by.name ?? "a team member"}</span>}
					<Commit commit={commit} link={link} />
					{ci?.run_url == null ? null : (
						<a href={ci.run_url} target="_blank" rel="noopener noreferrer nofollow">
							<Icon of={IconExternalLink} />
							{ci.repository ?? "CI"} run {ci.run_id ?? ""}
						</a>
					)}
					{isFailing ? (
						<span className="t-bad">
							<Icon of={IconAlertTriangle} />
							{shareText(outcome.fail, installs)} of {countText(installs)} installs failed
						</span>
					) : null}
					{bundle_deleted && version !== null ? (
						<span>
							<Icon of={IconTrash} />
							Bundle deleted
						</span>
					) : null}
				</>
			}
			action={
				onRollBack === undefined ? null : wayBack === "menu" ? (
					<Menu position="bottom-end" width={216}>
						<Menu.Target>
							<button
								type="button"
								className="btn ghost icon-only"
								aria-label={`More about ${target} on ${release.channel.name}`}
							>
								<Icon of={IconDotsVertical} />
							</button>
						</Menu.Target>
						<Menu.Dropdown>
							{wasLeft ? <Menu.Label>{target} was rolled back from</Menu.Label> : null}
							<Menu.Item leftSection={<Icon of={IconArrowBackUp} />} onClick={onRollBack}>
								{wasLeft ? `Return to ${target} anyway` : `Roll back to ${target}`}
							</Menu.Item>
						</Menu.Dropdown>
					</Menu>
				) : (
					<Button
						size="xs"
						variant="default"
						leftSection={<Icon of={IconArrowBackUp} size="s" />}
						onClick={onRollBack}
						{...(withChannel ? { "aria-label": `Roll back to ${target} on ${release.channel.name}` } : {})}
					>
						Roll back to {target}
					</Button>
				)
			}
		>
			<Sentence
				who={kind === "capstan" ? SERVICE_NAME : name}
				parts={sentenceOf(release, withChannel)}
				appId={appId}
				missing={bundle_deleted ? version : null}
			/>{" "}
			{is_live ? <Badge tone="ok">Live</Badge> : null}
			{was_rolled_back ? <Badge tone="warn">Rolled back</Badge> : null}
		</TimelineItem>
	);
}

/** The link of a bundle is what a person or a CI job entered, so only web addresses become one. */
function Commit({ commit, link }: { readonly commit: string | null; readonly link: string | null }) {
	const isWeb = link !== null && URL.canParse(link) && /^https?:$/.test(new URL(link).protocol);
	if (commit === null && !isWeb) return null;
	const text = commit === null ? "Details" : <span className="mono">{commit.slice(0, COMMIT_LETTERS)}</span>;
	const icon = <Icon of={commit === null ? IconExternalLink : IconGitCommit} />;
	return isWeb ? (
		<a href={link} target="_blank" rel="noopener noreferrer nofollow">
			{icon}
			{text}
		</a>
	) : (
		<span>
			{icon}
			{text}
		</span>
	);
}

/** Loads the next page below the list. */
export function Older({
	history: { hasNextPage, isFetchingNextPage, fetchNextPage },
}: {
	readonly history: Pick<ReturnType<typeof useReleases>, "hasNextPage" | "isFetchingNextPage" | "fetchNextPage">;
}) {
	return hasNextPage ? (
		<Button variant="default" w="fit-content" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
			Show older releases
		</Button>
	) : null;
}
