/**
 * Public keys that verify signed bundles, and the policy that requires signatures, with a preview
 * of its effect.
 */

import { Alert, Button, Code, Group, Stack, Switch, Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAsk, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { formErrors } from "../../components/field-errors";
import { Confirm, FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { Section } from "../../components/screen";
import { countOf } from "../../components/size";
import { DataTable } from "../../components/table";
import { Time } from "../../components/time";

type SigningKey = AnswerOf<"GET /organization/signing_key">[number];
type Unsigned = Pick<AnswerOf<"POST /organization">, "unsigned_channels" | "unsigned_channel_count">;

const KEY_ERRORS = ["public_key", "signing_key_already_exists"];

export function SigningKeys({
	orgId,
	isRequired,
	mayChange,
}: {
	readonly orgId: string;
	readonly isRequired: boolean;
	readonly mayChange: boolean;
}) {
	const keys = useAsk("GET /organization/signing_key", { query: { orgId } });
	const [dialog, setDialog] = useState<"add" | "policy" | SigningKey | undefined>();
	const close = () => setDialog(undefined);
	return (
		<Section title="Signed bundles">
			<Text size="sm" c="dimmed">
				Bundles that the stock CLI encrypts with your private key are verified with these public keys.
			</Text>
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
										mayChange ? (
											<Button size="xs" variant="danger" onClick={() => setDialog(key)}>
												Remove {key.name}
											</Button>
										) : (
											"—"
										),
								},
							]}
						/>
					)
				}
			</Answer>
			<Group>
				{mayChange ? (
					<Button variant="default" onClick={() => setDialog("add")}>
						Add signing key
					</Button>
				) : null}
				<Switch
					label="Require signed bundles"
					description="Capstan refuses to accept or release other bundles."
					checked={isRequired}
					disabled={!mayChange}
					onChange={() => setDialog("policy")}
				/>
			</Group>
			{dialog === "add" ? <AddKey orgId={orgId} onClose={close} /> : null}
			{dialog === "policy" ? <Require orgId={orgId} isRequired={isRequired} onClose={close} /> : null}
			{typeof dialog === "object" ? <RemoveKey orgId={orgId} signingKey={dialog} onClose={close} /> : null}
		</Section>
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

function Require({
	orgId,
	isRequired,
	onClose,
}: {
	readonly orgId: string;
	readonly isRequired: boolean;
	readonly onClose: () => void;
}) {
	const body = { orgId, require_signed_bundles: !isRequired };
	const [plan, setPlan] = useState<Unsigned | undefined>();
	const preview = useChange("POST /organization", setPlan);
	const save = useChange("POST /organization", () => {
		notify(isRequired ? "Unsigned bundles are accepted." : "Only signed bundles are accepted.");
		onClose();
	});
	const isReady = isRequired || plan !== undefined;
	return (
		<FormDialog
			title={isRequired ? "Accept unsigned bundles?" : "Require signed bundles?"}
			action={isRequired ? "Accept unsigned bundles" : isReady ? "Require signed bundles" : "Preview affected channels"}
			isPending={preview.isPending || save.isPending}
			error={preview.error ?? save.error}
			onClose={onClose}
			onSubmit={() => (isReady ? save.mutate({ body }) : preview.mutate({ body: { ...body, dry_run: true } }))}
		>
			<Text size="sm">
				{isRequired
					? "Anyone who may upload and release can then release any bundle."
					: "Capstan then refuses uploads, releases, rollbacks and device overrides unless a signing key verifies the bundle. Channels keep their current bundles until you replace them."}
			</Text>
			{plan === undefined ? null : <UnsignedChannels {...plan} />}
		</FormDialog>
	);
}

function UnsignedChannels({ unsigned_channels, unsigned_channel_count }: Unsigned) {
	if (unsigned_channel_count === 0) {
		return (
			<Alert color="green" title="All channels serve signed bundles" role="status">
				Nothing has changed yet.
			</Alert>
		);
	}
	return (
		<Alert color="orange" title={`${countOf(unsigned_channel_count, "channel")} serve unsigned bundles`} role="status">
			<ul>
				{unsigned_channels.map(({ app_id, channel, version }) => (
					<li key={`${app_id} ${channel} ${version}`}>
						{channel} of {app_id}: {version}
					</li>
				))}
				{unsigned_channel_count > unsigned_channels.length ? (
					<li>and {unsigned_channel_count - unsigned_channels.length} more</li>
				) : null}
			</ul>
			These channels keep their bundles until you replace them. Nothing has changed yet.
		</Alert>
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
