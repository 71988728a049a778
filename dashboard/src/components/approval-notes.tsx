/**
 * Releases that wait for the reader's approval, in amber on the home of their app and above the
 * list of apps. The link opens the decision, with what it changes.
 */
import { channelPath } from "../paths";
import { Note } from "./card";
import { TextLink } from "./link";
import { countOf } from "./size";

interface Approval {
	readonly id: string;
	readonly channel: string;
	/** Null: the store build. */
	readonly version: string | null;
}

const MOST_SHOWN = 3;

export function ApprovalNotes({
	appId,
	name,
	approvals,
}: {
	readonly appId: string;
	/** Name of the app, in lists of several. */
	readonly name?: string;
	readonly approvals: readonly Approval[];
}) {
	const more = approvals.length - MOST_SHOWN;
	return (
		<>
			{approvals.slice(0, MOST_SHOWN).map(({ id, channel, version }) => (
				<Note
					key={id}
					tone="warn"
					title={`${name === undefined ? "" : `${name}: `}${version ?? "The store build"} waits for your approval on ${channel}`}
				>
					<span>
						No device gets it before.{" "}
						<TextLink to={`${channelPath(appId, channel)}?do=approve`}>Review {version ?? "the store build"}</TextLink>
					</span>
				</Note>
			))}
			{more > 0 ? (
				<Note tone="warn" title={`${countOf(more, "more release waits", "more releases wait")} for you`} />
			) : null}
		</>
	);
}
