/** The keys that bundles are verified with, and the policy that lets only such bundles to devices, tried before it is switched on. */
import { Alert, Button, Code, Group, Stack, Switch, Text, Textarea, TextInput } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAsk, useChange } from "../api";
import { Answer } from "../parts/answer";
import { Confirm } from "../parts/confirm";
import { FormDialog } from "../parts/form";
import { say } from "../parts/say";
import { Section } from "../parts/screen";
import { countOf } from "../parts/size";
import { DataTable } from "../parts/table";
import { Time } from "../parts/time";

type SigningKey = AnswerOf<"GET /organization/signing_key">[number];
type Unsigned = Pick<AnswerOf<"POST /organization">, "unsigned_channels" | "unsigned_channel_count">;

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
						<Text size="sm">No key yet. Add the .capgo_key_v2.pub that "key create" wrote in your project.</Text>
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
									title: "Action",
									cell: (key) =>
										mayChange ? (
											<Button size="xs" variant="default" onClick={() => setDialog(key)}>
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
						Add a signing key
					</Button>
				) : null}
				<Switch
					label="Require signed bundles"
					description="Other bundles are neither accepted nor promoted."
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
		say(`The signing key ${name} is added.`);
		onClose();
	});
	return (
		<FormDialog
			title="Add a signing key"
			action="Add key"
			isPending={add.isPending}
			error={add.error}
			onClose={onClose}
			onSubmit={() => add.mutate({ body: { orgId, name, public_key: publicKey } })}
		>
			<TextInput
				label="Name"
				required
				maxLength={128}
				value={name}
				onChange={(event) => setName(event.currentTarget.value)}
			/>
			<Textarea
				label="Public key"
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
	const attempt = useChange("POST /organization", setPlan);
	const save = useChange("POST /organization", () => {
		say(isRequired ? "Unsigned bundles are accepted again." : "Only signed bundles are accepted from now on.");
		onClose();
	});
	const isReady = isRequired || plan !== undefined;
	return (
		<FormDialog
			title={isRequired ? "Accept unsigned bundles?" : "Require signed bundles?"}
			action={isRequired ? "Accept unsigned bundles" : isReady ? "Require signed bundles" : "See what changes"}
			isPending={attempt.isPending || save.isPending}
			error={attempt.error ?? save.error}
			onClose={onClose}
			onSubmit={() => (isReady ? save.mutate({ body }) : attempt.mutate({ body: { ...body, dry_run: true } }))}
		>
			<Text size="sm">
				{isRequired
					? "Everybody who may upload and promote can then bring any bundle to devices."
					: "Uploads, promotions, rollbacks and bundles set for single devices are refused unless a signing key verifies the bundle. Bundles that channels serve now stay until they are replaced."}
			</Text>
			{plan === undefined ? null : <UnsignedChannels {...plan} />}
		</FormDialog>
	);
}

function UnsignedChannels({ unsigned_channels, unsigned_channel_count }: Unsigned) {
	if (unsigned_channel_count === 0) {
		return (
			<Alert color="green" title="Every channel serves signed bundles" role="status">
				Nothing was changed yet.
			</Alert>
		);
	}
	return (
		<Alert
			color="orange"
			title={`${countOf(unsigned_channel_count, "channel")} would serve unsigned bundles`}
			role="status"
		>
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
			They stay served until they are replaced. Nothing was changed yet.
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
		say(`The signing key ${signingKey.name} is removed.`);
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
