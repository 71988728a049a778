/** Protection of a channel: who may release to it, and releases that wait for approval. */

import { Alert, Button, Checkbox, Group, List, MultiSelect, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { CUSTOM_ROLE_NAME } from "../../../../src/authz/custom-roles";
import { ADMINISTRATORS, PROMOTING_ROLES } from "../../../../src/authz/permissions";
import { ROLE_TEXTS } from "../../../../src/authz/role-texts";
import { EFFECT_DAYS } from "../../../../src/domain/defaults";
import { type AnswerOf, useAllPages, useAsk, useChange } from "../../api";
import { Badge } from "../../components/badge";
import { Card, Properties } from "../../components/card";
import type { Channel } from "../../components/channel-badges";
import { useDo } from "../../components/do";
import { formErrors } from "../../components/field-errors";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { countOf } from "../../components/size";
import { Time } from "../../components/time";
import { useOrganizationMay } from "../../permissions";
import { isBuiltIn, type KnownRole, titleOf, useRolesOf } from "../../roles";

type Proposal = AnswerOf<"GET /proposal">[number];

const BUILT_IN = PROMOTING_ROLES.map((name) => ({ name, title: ROLE_TEXTS[name] }));

/** Roles that `promoters` may name: built-in ones, and custom ones that release. */
const promotingRoles = (roles: readonly KnownRole[]) => [
	...BUILT_IN,
	...roles.filter(({ isCustom, permissions }) => isCustom && permissions.includes("channel.promote_bundle")),
];

/** Ids of keys and accounts are longer than names of roles. */
const isRole = (promoter: string) => isBuiltIn(promoter) || CUSTOM_ROLE_NAME.test(promoter);

/**
 * Names of the keys and people of the organization, by id; empty for readers who may not list them.
 */
function useNames(orgId: string | undefined, enabled: boolean): ReadonlyMap<string, string> {
	const isOn = enabled && orgId !== undefined;
	const may = useOrganizationMay(orgId);
	const keys = useAllPages(
		"GET /apikey",
		{ query: { org_id: orgId ?? "" } },
		{ enabled: isOn && may("org.manage_apikeys") === true },
	);
	const members = useAllPages(
		"GET /organization/members",
		{ query: { orgId: orgId ?? "", limit: "50" } },
		{ enabled: isOn && may("org.read_members") === true },
	);
	return new Map([
		...(keys.data ?? []).map(({ id, name }) => [id, `${name} (API key)`] as const),
		...(members.data ?? []).map(({ uid, email }) => [uid, email] as const),
	]);
}

export function ChannelProtection({
	appId,
	orgId,
	channel,
	maySet,
}: {
	readonly appId: string;
	readonly orgId: string | undefined;
	readonly channel: Channel;
	readonly maySet: boolean;
}) {
	const [isEditing, setEditing] = useState(false);
	useDo("protect", () => setEditing(true), maySet);
	const named = channel.promoters.filter(isRole);
	// Readers of a channel with built-in promoters need no list of roles.
	const needsRoles = isEditing || named.some((promoter) => !isBuiltIn(promoter));
	const [known = []] = useRolesOf([needsRoles ? orgId : undefined]);
	const roles = named.map((promoter) => titleOf(known, promoter));
	const others = channel.promoters.filter((promoter) => !isRole(promoter));
	const names = useNames(orgId, isEditing || others.length > 0);
	const unnamed = others.filter((id) => !names.has(id)).length;
	const promoters = [
		...roles,
		...others.flatMap((id) => names.get(id) ?? []),
		...(unnamed === 0 ? [] : [countOf(unnamed, "other key or person", "other keys and people")]),
	];
	return (
		<Card
			title="Protection"
			actions={
				maySet ? (
					<Button variant="default" size="xs" onClick={() => setEditing(true)}>
						{channel.protected ? "Edit protection" : "Protect channel"}
					</Button>
				) : undefined
			}
		>
			{channel.protected ? (
				<Properties
					items={[
						["Who releases", promoters.join(", ")],
						[
							"Releases",
							channel.requires_approval
								? "Need the approval of another person who may release"
								: "Take effect immediately",
						],
					]}
				/>
			) : (
				<Text size="sm" c="dimmed">
					Anyone whose role allows releases can change the bundle of this channel.
				</Text>
			)}
			{isEditing ? (
				<EditProtection
					appId={appId}
					channel={channel}
					roles={promotingRoles(known)}
					names={names}
					onClose={() => setEditing(false)}
				/>
			) : null}
		</Card>
	);
}

function EditProtection({
	appId,
	channel,
	roles: choosable,
	names,
	onClose,
}: {
	readonly appId: string;
	readonly channel: Channel;
	readonly roles: readonly { readonly name: string; readonly title: string }[];
	readonly names: ReadonlyMap<string, string>;
	readonly onClose: () => void;
}) {
	const [isProtected, setProtected] = useState(true);
	const [roles, setRoles] = useState<string[]>(
		channel.protected ? channel.promoters.filter(isRole) : [...ADMINISTRATORS],
	);
	const [ids, setIds] = useState<string[]>(channel.promoters.filter((promoter) => !isRole(promoter)));
	const [needsApproval, setNeedsApproval] = useState(channel.requires_approval);
	const change = useChange("POST /channel", () => {
		notify(
			isProtected ? `Channel ${channel.name} is now protected.` : `Channel ${channel.name} is no longer protected.`,
		);
		onClose();
	});
	const promoters = [...roles, ...ids];
	// A promoter that left has no name any more, and can be removed.
	const choices = [...new Set([...names.keys(), ...ids])].map((id) => ({ value: id, label: names.get(id) ?? id }));
	const rules = { protected: true, promoters, requires_approval: needsApproval };
	const errors = formErrors(change.error, ["promoters"]);
	return (
		<FormDialog
			title={`Protection of ${channel.name}`}
			action="Save protection"
			isPending={change.isPending}
			isReady={!isProtected || promoters.length > 0}
			error={errors.rest}
			onSubmit={() =>
				change.mutate({
					body: { app_id: appId, channel: channel.name, ...(isProtected ? rules : { protected: false }) },
				})
			}
			onClose={onClose}
		>
			<Switch
				label="Protect this channel"
				description="Only the people, keys and roles below can release to it. It cannot be deleted, and only administrators can change its settings."
				checked={isProtected}
				onChange={(event) => setProtected(event.currentTarget.checked)}
			/>
			{isProtected ? (
				<>
					<Checkbox.Group label="Roles that can release" value={roles} onChange={setRoles}>
						<Stack gap="xs" mt="xs">
							{choosable.map(({ name, title }) => (
								<Checkbox key={name} value={name} label={title} />
							))}
						</Stack>
					</Checkbox.Group>
					<MultiSelect
						label="API keys and people who can release"
						description="A key can approve releases only if it is listed here."
						placeholder="Choose by name"
						error={errors.at("promoters")}
						searchable
						data={choices}
						value={ids}
						onChange={setIds}
						maxDropdownHeight={220}
						comboboxProps={{ keepMounted: false }}
					/>
					<Switch
						label="Releases need approval"
						description="Anyone whose role allows releases can propose one. Another person who may release approves it with a passkey. Rollbacks to former bundles need no approval."
						checked={needsApproval}
						onChange={(event) => setNeedsApproval(event.currentTarget.checked)}
					/>
				</>
			) : null}
		</FormDialog>
	);
}

/** Releases that wait for approval, with their effect. */
export function WaitingProposals({ appId, channel }: { readonly appId: string; readonly channel: Channel }) {
	const proposals = useAsk("GET /proposal", { query: { app_id: appId, channel: channel.name } });
	const waiting = Array.isArray(proposals.data) ? proposals.data.filter(({ state }) => state === "pending") : [];
	return waiting.map((proposal) => <Waiting key={proposal.id} appId={appId} proposal={proposal} />);
}

type Decision = "approve" | "reject";

function Waiting({ appId, proposal }: { readonly appId: string; readonly proposal: Proposal }) {
	const [decision, setDecision] = useState<Decision | undefined>();
	const { rollout, what_if: effect, outdated } = proposal;
	const version = proposal.version ?? "the store build";
	const share = rollout === null ? "every device" : `${rollout.percentage_bps / 100} % of the devices`;
	useDo("approve", () => setDecision("approve"), proposal.can_approve && !outdated);
	return (
		<Alert color="orange" title={`Waiting for approval: ${rollout?.version ?? version} for ${share}`}>
			<Stack gap="xs" align="flex-start">
				<Text size="sm">
					Proposed by {proposal.proposed_by.name ?? "a team member"} <Time value={proposal.created_at} />. Expires{" "}
					<Time value={proposal.expires_at} />.
				</Text>
				{outdated ? (
					<Text size="sm" c="red">
						The channel has changed since. Reject this proposal and propose the change again.
					</Text>
				) : null}
				<EffectText effect={effect} />
				<Differences proposal={proposal} />
				<Group gap="sm">
					{proposal.can_approve && !outdated ? (
						<Button size="xs" onClick={() => setDecision("approve")}>
							Approve {version}
						</Button>
					) : null}
					<Button size="xs" variant="default" onClick={() => setDecision("reject")}>
						{proposal.can_approve ? "Reject proposal" : "Withdraw or reject proposal"}
					</Button>
				</Group>
			</Stack>
			{decision === undefined ? null : (
				<Decide appId={appId} proposal={proposal} decision={decision} onClose={() => setDecision(undefined)} />
			)}
		</Alert>
	);
}

function EffectText({ effect }: { readonly effect: Proposal["what_if"] }) {
	if (effect === null) return null;
	return (
		<Text size="sm">
			{effect.devices_changed} of {countOf(effect.devices, "device")} seen in the last {EFFECT_DAYS} days will change
			version.
		</Text>
	);
}

/** Files that are listed by name; the rest are counted. */
const MOST_FILES = 12;
const CHANGE_COLORS = { added: "ok", changed: "info", removed: "bad" } as const;

function Differences({ proposal: { difference, live_version } }: { readonly proposal: Proposal }) {
	if (difference === null) {
		return (
			<Text size="sm" c="dimmed">
				Its files cannot be compared with {live_version ?? "the store build"}.
			</Text>
		);
	}
	const { added, changed, removed, files } = difference;
	const rest = added + changed + removed - Math.min(files.length, MOST_FILES);
	return (
		<Stack gap={4}>
			<Text size="sm">
				Files compared with {live_version}: {added} added, {changed} changed, {removed} removed.
			</Text>
			<List size="sm" listStyleType="none">
				{files.slice(0, MOST_FILES).map(({ file, change }) => (
					<List.Item key={file}>
						<Badge tone={CHANGE_COLORS[change]}>{change}</Badge>
						<code>{file}</code>
					</List.Item>
				))}
				{rest > 0 ? <List.Item>and {countOf(rest, "more file")}</List.Item> : null}
			</List>
		</Stack>
	);
}

function Decide({
	appId,
	proposal,
	decision,
	onClose,
}: {
	readonly appId: string;
	readonly proposal: Proposal;
	readonly decision: Decision;
	readonly onClose: () => void;
}) {
	const [comment, setComment] = useState("");
	const version = proposal.version ?? "the store build";
	const approve = useChange("POST /proposal/approve", () => {
		notify(`${version} approved for ${proposal.channel}.`);
		onClose();
	});
	const reject = useChange("POST /proposal/reject", () => {
		notify(`Proposal of ${version} rejected.`);
		onClose();
	});
	const sent = decision === "approve" ? approve : reject;
	const body = { app_id: appId, id: proposal.id, ...(comment.trim() === "" ? {} : { comment: comment.trim() }) };
	const input = (
		<TextInput
			label="Comment"
			description="Optional, kept with the proposal."
			value={comment}
			onChange={(event) => setComment(event.currentTarget.value)}
		/>
	);
	const text =
		decision === "approve" ? "It takes effect immediately. You confirm with a passkey." : "No device changes version.";
	const common = { isPending: sent.isPending, error: sent.error, onClose };
	return decision === "approve" ? (
		<FormDialog
			title={`Approve ${version} on ${proposal.channel}?`}
			action={`Approve ${version}`}
			{...common}
			onSubmit={() => approve.mutate({ body })}
		>
			<EffectText effect={proposal.what_if} />
			<Text size="sm">{text}</Text>
			{input}
		</FormDialog>
	) : (
		<Confirm
			title={`Reject ${version} on ${proposal.channel}?`}
			action={`Reject ${version}`}
			{...common}
			onConfirm={() => reject.mutate({ body })}
		>
			<Text size="sm">{text}</Text>
			{input}
		</Confirm>
	);
}
