/** The providers that the reader's account is linked to. Nothing where there are none and the service knows none. */
import { Button, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { type AnswerOf, useAsk, useChange } from "../api";
import { Answer } from "../parts/answer";
import { Confirm } from "../parts/confirm";
import { say } from "../parts/say";
import { Empty, Section } from "../parts/screen";
import { DataTable } from "../parts/table";
import { Time } from "../parts/time";

type Provider = AnswerOf<"GET /account/providers">[number];

export function Providers() {
	const linked = useAsk("GET /account/providers", {});
	const methods = useAsk("GET /sign-in/methods", {});
	const [leaving, setLeaving] = useState<Provider | undefined>();
	const offered = methods.data?.providers ?? [];
	if (linked.data?.length === 0 && offered.length === 0) return null;
	return (
		<Section title="Providers">
			<Answer query={linked} what="your providers">
				{(known) =>
					known.length === 0 ? (
						<Empty title="No provider knows you here">
							Sign in with {offered.map(({ name }) => name).join(" or ")} once, where this address of yours is verified.
						</Empty>
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
													This service no longer signs in with it.
												</Text>
											)}
										</Stack>
									),
								},
								{ title: "Linked", cell: ({ linked_at }) => <Time value={linked_at} /> },
								{
									title: "Change",
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
		</Section>
	);
}

function Unlink({ provider, onClose }: { readonly provider: Provider; readonly onClose: () => void }) {
	const unlink = useChange("DELETE /account/providers/:provider", () => {
		say(`Your account is no longer linked to ${provider.name}.`);
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
				Your account there opens this one no longer. Signing in with it again, with your address verified there, links
				it again.
			</Text>
		</Confirm>
	);
}
