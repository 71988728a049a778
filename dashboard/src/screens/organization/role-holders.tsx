/**
 * The people, keys, invitations and protected channels that use a custom role, with what a change
 * gives to and takes from each.
 */
import { Text } from "@mantine/core";
import { permissionTexts } from "../../../../src/authz/permission-texts";
import type { AnswerOf } from "../../api";
import { Note } from "../../components/card";
import { countOf } from "../../components/size";

type Holder = AnswerOf<"PUT /organization/roles">["holders"][number];

const TYPES: Readonly<Record<Holder["type"], string>> = {
	api_key: "API key",
	user: "member",
	group: "group",
	invitation: "invitation",
	channel: "protected channel",
};

function placeOf({ app_id, channel }: Holder): string {
	if (app_id === null) return "";
	return channel === null ? ` on ${app_id}` : ` on ${channel} of ${app_id}`;
}

export function Holders({ holders, count }: { readonly holders: readonly Holder[]; readonly count: number }) {
	if (count === 0) {
		return (
			<div role="status">
				<Note>Nobody has this role.</Note>
			</div>
		);
	}
	return (
		<div role="status">
			<Note tone="warn" title={`${countOf(count, "holder")} of this role`}>
				<ul>
					{holders.map((holder) => (
						<li key={`${holder.type} ${holder.id} ${holder.app_id} ${holder.channel}`}>
							{holder.type === "channel" ? `${holder.channel} of ${holder.app_id}` : `${holder.name}${placeOf(holder)}`}{" "}
							({TYPES[holder.type]})
							{holder.gains.length === 0 ? null : <Text size="sm">Gains: {permissionTexts(holder.gains)}</Text>}
							{holder.loses.length === 0 ? null : <Text size="sm">Loses: {permissionTexts(holder.loses)}</Text>}
						</li>
					))}
					{count > holders.length ? <li>and {count - holders.length} more</li> : null}
				</ul>
			</Note>
		</div>
	);
}
