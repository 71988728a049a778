/** The contents of the release: files against the release before, and the bundle's own facts. */

import { type AnswerOf, useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { Card, Properties } from "../../components/card";
import { CopyChip } from "../../components/copy-chip";
import { momentText } from "../../components/dates";
import { TextLink } from "../../components/link";
import { countText, sizeText } from "../../components/size";
import { bundlePath } from "../../paths";
import { Commit } from "./release-facts";
import type { Release } from "./release-texts";

const KINDS = { added: ["A", "Added"], changed: ["M", "Changed"], removed: ["D", "Removed"] } as const;
const MOST_FILES = 5;

export function ReleaseChanges({
	appId,
	release,
	nowMs,
}: {
	readonly appId: string;
	readonly release: Release;
	readonly nowMs: number;
}) {
	const { version, before, bundle_deleted, ci } = release;
	const bundles = useAsk(
		"GET /bundle",
		{ query: { app_id: appId, version: version ?? "" } },
		{ enabled: version !== null && !bundle_deleted },
	);
	if (version === null) return null;
	const base = before?.version ?? null;
	return (
		<Card
			title={base === null ? "The bundle" : `What changed since ${base}`}
			actions={
				base === null || bundle_deleted ? undefined : (
					<TextLink to={`${bundlePath(appId, version)}?${new URLSearchParams({ with: base })}`}>Compare</TextLink>
				)
			}
		>
			<div className="sec">
				{bundle_deleted ? (
					<p className="muted">The bundle {version} was deleted, so its files cannot be shown.</p>
				) : (
					<>
						{base === null ? null : <Files appId={appId} version={version} base={base} />}
						<Answer query={bundles} what="the bundle">
							{([bundle]) =>
								bundle === undefined ? null : (
									<Properties
										items={[
											[
												"Bundle",
												<TextLink key="bundle" to={bundlePath(appId, version)}>{`Bundle ${version}`}</TextLink>,
											],
											["Size", bundle.size === null ? "—" : sizeText(bundle.size)],
											...(release.commit === null
												? []
												: [["Commit", <Commit key="commit" release={release} />] as const]),
											...(ci?.run_url == null
												? []
												: [
														[
															"Job",
															<a key="job" href={ci.run_url} target="_blank" rel="noopener noreferrer nofollow">
																{ci.repository ?? "CI"} run {ci.run_id ?? ""}
															</a>,
														] as const,
													]),
											["Uploaded", momentText(bundle.created_at, nowMs)],
											[
												"Needs",
												bundle.min_update_version === null
													? "any store build"
													: `store build ${bundle.min_update_version} or newer`,
											],
											...(bundle.checksum === null
												? []
												: [["SHA-256", <CopyChip key="checksum" value={bundle.checksum} />] as const]),
										]}
									/>
								)
							}
						</Answer>
					</>
				)}
			</div>
		</Card>
	);
}

function Files({ appId, version, base }: { readonly appId: string; readonly version: string; readonly base: string }) {
	const difference = useAsk("GET /bundle/difference", { query: { app_id: appId, version, base } });
	// The bundle before may be deleted, and then there is nothing to compare with.
	if (difference.isError) return <p className="muted">The files of {base} are not there any more to compare with.</p>;
	return (
		<Answer query={difference} what="the changed files">
			{(answer) => <FileRows answer={answer} base={base} />}
		</Answer>
	);
}

function FileRows({ answer, base }: { readonly answer: AnswerOf<"GET /bundle/difference">; readonly base: string }) {
	const { difference } = answer;
	if (difference === null) return <p className="muted">The files cannot be compared with those of {base}.</p>;
	const { added, changed, removed, files } = difference;
	const total = added + changed + removed;
	if (total === 0) return <p className="soft">Its files are the same as those of {base}.</p>;
	const shown = files.slice(0, MOST_FILES);
	return (
		<>
			<p className="soft">
				{countText(added)} added, {countText(changed)} changed, {countText(removed)} removed.
			</p>
			<ul className="changed">
				{shown.map(({ file, change }) => (
					<li key={file}>
						<span className={`kind is-${change}`} title={KINDS[change][1]}>
							{KINDS[change][0]}
							<span className="sr">{KINDS[change][1]}: </span>
						</span>
						<span className="mono cut" title={file}>
							{file}
						</span>
					</li>
				))}
				{total > shown.length ? <li className="muted">{countText(total - shown.length)} more files</li> : null}
			</ul>
		</>
	);
}
