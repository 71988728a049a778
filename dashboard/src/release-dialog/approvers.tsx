/**
 * Who has to approve a release that is proposed: the people by name, who of them hears of it by
 * mail, and where to change it if nobody can.
 */
import { type AnswerOf, useAsk } from "../api";
import { Avatar } from "../components/avatar";
import { Icon } from "../components/icon";
import { TextLink } from "../components/link";
import { countOf, countText } from "../components/size";
import { IconAlertTriangle } from "../icons";
import { channelPath } from "../paths";

type Known = AnswerOf<"GET /channel/approvers">;
type Person = Known["people"][number];

const MOST_NAMED = 3;

export function Approvers({ appId, name }: { readonly appId: string; readonly name: string }) {
	const { data } = useAsk("GET /channel/approvers", { query: { app_id: appId, channel: name } });
	if (data === undefined) {
		return <span className="soft small">{name} is protected: another person has to approve the release.</span>;
	}
	if (data.count === 0 && data.keys === 0) {
		return (
			<span className="t-warn small release-approvers">
				<Icon of={IconAlertTriangle} size="s" />
				<span>
					Nobody else may approve releases to {name}.{" "}
					<TextLink to={`${channelPath(appId, name)}?do=protect`}>Choose who may</TextLink>
				</span>
			</span>
		);
	}
	return (
		<span className="stack">
			<span className="soft small release-approvers">{whoText(data)}</span>
			{data.people.length === 0 ? null : <span className="muted small">{reachedText(data.people)}</span>}
		</span>
	);
}

function whoText({ people, count, complete, keys }: Known) {
	if (people.length === 0) {
		if (count === 0) return `${countOf(keys, "API key")} that the channel names can approve it.`;
		return count === 1 && complete
			? "Another person has to approve it."
			: `One of ${countText(count)}${complete ? "" : "+"} people has to approve it.`;
	}
	const named = people.slice(0, MOST_NAMED);
	const others = people.length - named.length;
	return (
		<>
			{people.length > 1 ? "One of " : ""}
			{named.map(({ id, email }, index) => (
				<span key={id} className="release-approver">
					{index === 0 ? "" : index === named.length - 1 && others === 0 ? "or " : ""}
					<Avatar name={email} />
					<bdi className="strong" title={email}>
						{email}
					</bdi>
				</span>
			))}
			{others === 0 ? "" : `or ${countText(others)}${complete ? "" : "+"} others `}
			has to approve it.
		</>
	);
}

/** Who gets a mail, and who cannot approve before they add a passkey. */
function reachedText(people: readonly Person[]): string {
	const mailed = people.filter((person) => person.mailed);
	const unready = people.filter((person) => !person.has_passkey);
	const isOne = people.length === 1;
	const mails =
		mailed.length === 0
			? "No mail goes out; send the link of the channel."
			: mailed.length === people.length
				? `${isOne ? "They" : "All of them"} get a mail.`
				: `${namesOf(mailed)} ${mailed.length === 1 ? "gets" : "get"} a mail.`;
	if (unready.length === 0) return mails;
	if (unready.length === people.length) return `${mails} ${isOne ? "They" : "All of them"} need a passkey first.`;
	return `${mails} ${namesOf(unready)} ${unready.length === 1 ? "needs" : "need"} a passkey first.`;
}

function namesOf(people: readonly Person[]): string {
	const [first, second] = people.map(({ email }) => email);
	if (people.length === 1 || second === undefined) return first ?? "";
	return people.length === 2 ? `${first} and ${second}` : `${first} and ${countOf(people.length - 1, "other")}`;
}
