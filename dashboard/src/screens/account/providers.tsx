/**
 * Sign-in providers that are linked to the account. Renders nothing if none is linked and the
 * server offers none.
 */
import { Button, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAsk, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Confirm } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { SettingsFacts } from "../../components/settings-card";
import { DataTable } from "../../components/table";
import { Time } from "../../components/time";

type Provider = AnswerOf<"GET /account/providers">[number];

export function Providers() {
	const linked = useAsk("GET /account/providers", {});
	const methods = useAsk("GET /sign-in/methods", {});
	const [leaving, setLeaving] = useState<Provider | undefined>();
	const offered = methods.data?.providers ?? [];
	if (linked.data?.length === 0 && offered.length === 0) return null;
	return (
		<SettingsFacts title="Sign-in providers" note="Other services that sign you in.">
			<Answer query={linked} what="your providers">
				{(known) =>
					known.length === 0 ? (
						<Text size="sm">
							None is linked. To link one, sign in with {offered.map(({ name }) => name).join(" or ")} using the same
							verified e-mail address.
						</Text>
					) : (
						<DataTable
							label="Providers"
							rows={known}
							rowKey={({ provider }) => provider}
							columns={[
								{
									title: "Name",
									cell: ({ name, offered: isOffered }) => (
										<Stack gap={4}>
											<Text size="sm">{name}</Text>
											{isOffered ? null : (
												<Text size="xs" c="dimmed">
													This server no longer offers it.
												</Text>
											)}
										</Stack>
									),
								},
								{ title: "Linked", cell: ({ linked_at }) => <Time value={linked_at} /> },
								{
									title: "Actions",
									cell: (provider) => (
										<Button
											size="xs"
											variant="default"
											aria-label={`Unlink ${provider.name}`}
											onClick={() => setLeaving(provider)}
										>
											Unlink
										</Button>
									),
								},
							]}
						/>
					)
				}
			</Answer>
			{leaving === undefined ? null : <Unlink provider={leaving} onClose={() => setLeaving(undefined)} />}
		</SettingsFacts>
	);
}

function Unlink({ provider, onClose }: { readonly provider: Provider; readonly onClose: () => void }) {
	const unlink = useChange("DELETE /account/providers/:provider", () => {
		notify(`${provider.name} unlinked.`);
		onClose();
	});
	return (
		<Confirm
			title={`Unlink ${provider.name}?`}
			action={`Unlink ${provider.name}`}
			isPending={unlink.isPending}
			error={unlink.error}
			onConfirm={() => unlink.mutate({ params: { provider: provider.provider } })}
			onClose={onClose}
		>
			<Text size="sm">
				You can no longer sign in with it. Signing in there again with your verified e-mail address links it again.
			</Text>
		</Confirm>
	);
}
