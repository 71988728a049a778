/** The user's passkeys: add, rename and remove them. */
import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { browserSupportsWebAuthn, startRegistration } from "@simplewebauthn/browser";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { type AnswerOf, ask, queryClient, useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { FormDialog } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { SettingsFacts } from "../../components/settings-card";
import { DataTable, Pager, pageOf, usePageNumber } from "../../components/table";
import { Time } from "../../components/time";
import { isDismissed } from "../../identity";
import { RemovePasskey } from "./remove-passkey";

type Passkey = AnswerOf<"GET /account/passkeys">[number];

export function Passkeys() {
	const passkeys = useAsk("GET /account/passkeys", {});
	const [name, setName] = useState("This device");
	const add = useMutation({
		mutationFn: async () => {
			const begun = await ask("POST /account/passkey-options", { body: {} });
			const credential = await startRegistration({
				optionsJSON: begun.options as unknown as Parameters<typeof startRegistration>[0]["optionsJSON"],
			});
			return ask("POST /account/passkeys", {
				body: { attempt: begun.attempt, name, credential: credential as never },
			});
		},
		onSuccess: async () => {
			notify("Passkey added.");
			await queryClient.invalidateQueries();
		},
	});
	const [requestedPage, setPage] = usePageNumber("passkeys");
	const [removed, setRemoved] = useState<Passkey | undefined>();
	const [renamed, setRenamed] = useState<Passkey | undefined>();
	return (
		<SettingsFacts title="Passkeys" note="A passkey signs you in without a code, and it cannot be phished.">
			<Answer query={passkeys} what="your passkeys">
				{(known) => {
					const { page, items, hasNext } = pageOf(known, requestedPage);
					return known.length === 0 ? (
						<Text size="sm">No passkeys yet.</Text>
					) : (
						<Stack gap="sm">
							<DataTable
								label="Passkeys"
								rows={items}
								rowKey={({ id }) => id}
								columns={[
									{ title: "Name", cell: (passkey) => passkey.name },
									{
										title: "Last used",
										cell: ({ last_used_at }) => (last_used_at === null ? "Never" : <Time value={last_used_at} />),
									},
									{
										title: "Actions",
										cell: (passkey) => (
											<Group gap="xs">
												<Button
													size="xs"
													variant="default"
													aria-label={`Rename the passkey ${passkey.name}`}
													onClick={() => setRenamed(passkey)}
												>
													Rename
												</Button>
												<Button
													size="xs"
													variant="danger"
													aria-label={`Remove the passkey ${passkey.name}`}
													onClick={() => setRemoved(passkey)}
												>
													Remove
												</Button>
											</Group>
										),
									},
								]}
							/>
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
						</Stack>
					);
				}}
			</Answer>
			{removed === undefined ? null : (
				<RemovePasskey passkey={removed} isLast={passkeys.data?.length === 1} onClose={() => setRemoved(undefined)} />
			)}
			{browserSupportsWebAuthn() ? (
				<form
					onSubmit={(event) => {
						event.preventDefault();
						add.mutate();
					}}
				>
					<Group align="flex-end">
						<TextInput
							label="Name of a new passkey"
							required
							maxLength={64}
							value={name}
							onChange={(event) => setName(event.currentTarget.value)}
						/>
						<Button type="submit" variant="default" loading={add.isPending}>
							Add passkey
						</Button>
					</Group>
				</form>
			) : null}
			{add.isError && isDismissed(add.error) ? <Text role="alert">The passkey was not created. Try again.</Text> : null}
			{add.isError && !isDismissed(add.error) ? <Problem error={add.error} /> : null}
			{renamed === undefined ? null : <Rename passkey={renamed} onClose={() => setRenamed(undefined)} />}
		</SettingsFacts>
	);
}

function Rename({ passkey, onClose }: { readonly passkey: Passkey; readonly onClose: () => void }) {
	const [name, setName] = useState(passkey.name);
	const rename = useChange("PUT /account/passkeys/:id", () => {
		notify(`Passkey renamed to ${name}.`);
		onClose();
	});
	return (
		<FormDialog
			title={`Rename ${passkey.name}`}
			action="Rename passkey"
			isPending={rename.isPending}
			error={rename.error}
			onSubmit={() => rename.mutate({ params: { id: passkey.id }, body: { name } })}
			onClose={onClose}
		>
			<TextInput
				label="Name of the passkey"
				required
				data-autofocus
				maxLength={64}
				value={name}
				onChange={(event) => setName(event.currentTarget.value)}
			/>
		</FormDialog>
	);
}
