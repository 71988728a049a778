/**
 * Public keys that verify signed bundles, and the policy that requires signatures, with the
 * channels that it affects before it is saved.
 */
import { Button, Code, Group, Stack, Switch, Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAsk, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Note } from "../../components/card";
import { formErrors } from "../../components/field-errors";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { SettingsCard, SettingsFacts } from "../../components/settings-card";
import { switchText, useDraft } from "../../components/settings-draft";
import { countOf } from "../../components/size";
import { DataTable } from "../../components/table";
import { Time } from "../../components/time";
import { useOrganizationPlan } from "../../dry-runs";
import type { OrganizationSettingsProps } from "./key-policies";

type SigningKey = AnswerOf<"GET /organization/signing_key">[number];
type Unsigned = Pick<AnswerOf<"POST /organization">, "unsigned_channels" | "unsigned_channel_count">;

const KEY_ERRORS = ["public_key", "signing_key_already_exists"];

const REQUIRE_LABEL = "Require signed bundles";

export function SignedBundles({ organization, mayChange }: OrganizationSettingsProps) {
	const { id: orgId, require_signed_bundles: isRequired } = organization;
	const { values, changed, set, discard, settle } = useDraft({ require_signed_bundles: isRequired });
	const willRequire = changed.require_signed_bundles;
	const plan = useOrganizationPlan(willRequire === true ? { orgId, require_signed_bundles: true } : undefined);
	const save = useChange("POST /organization", () =>
		notify(willRequire === true ? "Only signed bundles are accepted." : "Unsigned bundles are accepted."),
	);
	const [dialog, setDialog] = useState<"add" | SigningKey | undefined>();
	const close = () => setDialog(undefined);
	const title = "Signed bundles";
	const note = "Public keys verify bundles that the stock CLI encrypts with your private key.";
	const present = isRequired
		? "Capstan refuses to accept or release other bundles."
		: "Capstan accepts and releases unsigned bundles as well.";
	if (!mayChange) {
		return (
			<SettingsFacts title={title} note={note}>
				{present}
				<KeyTable orgId={orgId} />
			</SettingsFacts>
		);
	}
	return (
		<>
			<SettingsCard
				title={title}
				note={note}
				present={present}
				action="Save signed bundles"
				changes={willRequire === undefined ? [] : [switchText(REQUIRE_LABEL, willRequire)]}
				keeps={willRequire === true ? "Channels keep their current bundles until you replace them." : undefined}
				isReady={willRequire !== true || (plan.data !== undefined && plan.data !== null)}
				isPending={save.isPending}
				error={plan.error ?? save.error}
				onDiscard={discard}
				onSave={() => save.mutate({ body: { orgId, ...changed } }, { onSuccess: () => settle(changed) })}
			>
				<KeyTable orgId={orgId} onRemove={setDialog} />
				<Group>
					<Button variant="default" onClick={() => setDialog("add")}>
						Add signing key
					</Button>
				</Group>
				<Switch
					label={REQUIRE_LABEL}
					description="Refuses uploads, releases, rollbacks and device overrides unless a signing key verifies the bundle."
					checked={values.require_signed_bundles}
					onChange={(event) => set({ require_signed_bundles: event.currentTarget.checked })}
				/>
				<div role="status">
					{plan.data === undefined || plan.data === null ? null : <UnsignedChannels {...plan.data} />}
					{willRequire === false ? (
						<Note tone="warn">Anyone who may upload and release can then release any bundle.</Note>
					) : null}
				</div>
			</SettingsCard>
			{dialog === "add" ? <AddKey orgId={orgId} onClose={close} /> : null}
			{typeof dialog === "object" ? <RemoveKey orgId={orgId} signingKey={dialog} onClose={close} /> : null}
		</>
	);
}

function KeyTable({
	orgId,
	onRemove,
}: {
	readonly orgId: string;
	/** Absent for those who may not. */
	readonly onRemove?: (key: SigningKey) => void;
}) {
	const keys = useAsk("GET /organization/signing_key", { query: { orgId } });
	return (
		<Answer query={keys} what="the signing keys">
			{(rows) =>
				rows.length === 0 ? (
					<Text size="sm">
						No keys yet. Add .capgo_key_v2.pub, which "npx @capgo/cli key create" wrote in your project.
					</Text>
				) : (
					<DataTable
						label="Signing keys"
						rows={rows}
						rowKey={({ id }) => id}
						columns={[
							{ title: "Name", cell: ({ name }) => name },
							{ title: "Key id", cell: ({ key_id }) => <Code>{key_id}</Code> },
							{ title: "Added", wideOnly: true, cell: ({ created_at }) => <Time value={created_at} /> },
							{
								title: "Actions",
								cell: (key) =>
									onRemove === undefined ? null : (
										<Button size="xs" variant="danger" aria-label={`Remove ${key.name}`} onClick={() => onRemove(key)}>
											Remove
										</Button>
									),
							},
						]}
					/>
				)
			}
		</Answer>
	);
}

function AddKey({ orgId, onClose }: { readonly orgId: string; readonly onClose: () => void }) {
	const [name, setName] = useState("");
	const [publicKey, setPublicKey] = useState("");
	const add = useChange("POST /organization/signing_key", ({ name }) => {
		notify(`Signing key ${name} added.`);
		onClose();
	});
	const errors = formErrors(add.error, ["name", ...KEY_ERRORS]);
	return (
		<FormDialog
			title="Add signing key"
			action="Add key"
			isPending={add.isPending}
			error={errors.rest}
			onClose={onClose}
			onSubmit={() => add.mutate({ body: { orgId, name, public_key: publicKey } })}
		>
			<TextInput
				label="Name"
				error={errors.at("name")}
				required
				maxLength={128}
				value={name}
				onChange={(event) => setName(event.currentTarget.value)}
			/>
			<Textarea
				label="Public key"
				error={errors.at(...KEY_ERRORS)}
				description="The content of .capgo_key_v2.pub, never the private key."
				placeholder="-----BEGIN RSA PUBLIC KEY-----"
				required
				rows={8}
				value={publicKey}
				onChange={(event) => setPublicKey(event.currentTarget.value)}
			/>
		</FormDialog>
	);
}

function UnsignedChannels({ unsigned_channels, unsigned_channel_count }: Unsigned) {
	if (unsigned_channel_count === 0) return <Note tone="ok" title="All channels serve signed bundles" />;
	return (
		<Note tone="warn" title={`${countOf(unsigned_channel_count, "channel")} serve unsigned bundles`}>
			<ul>
				{unsigned_channels.map(({ app_id, channel, version }) => (
					<li key={`${app_id} ${channel} ${version}`}>
						<bdi>{channel}</bdi> of {app_id}: {version}
					</li>
				))}
				{unsigned_channel_count > unsigned_channels.length ? (
					<li>and {unsigned_channel_count - unsigned_channels.length} more</li>
				) : null}
			</ul>
		</Note>
	);
}

function RemoveKey({
	orgId,
	signingKey,
	onClose,
}: {
	readonly orgId: string;
	readonly signingKey: SigningKey;
	readonly onClose: () => void;
}) {
	const remove = useChange("DELETE /organization/signing_key", () => {
		notify(`Signing key ${signingKey.name} removed.`);
		onClose();
	});
	return (
		<Confirm
			title={`Remove ${signingKey.name}?`}
			action="Remove key"
			isPending={remove.isPending}
			error={remove.error}
			onConfirm={() => remove.mutate({ query: { orgId, id: signingKey.id } })}
			onClose={onClose}
		>
			<Stack gap="xs">
				<Text size="sm">
					Bundles that this key verified no longer count as signed. Devices that run them are not affected.
				</Text>
			</Stack>
		</Confirm>
	);
}
