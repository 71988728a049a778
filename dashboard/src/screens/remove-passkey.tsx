/** The question before a passkey is removed: which one, and how its owner signs in without it. The last way in is not offered to go. */
import { Text } from "@mantine/core";
import { type AnswerOf, useAsk, useChange } from "../api";
import { Answer } from "../parts/answer";
import { Confirm } from "../parts/confirm";
import { say } from "../parts/say";

type Passkey = AnswerOf<"GET /account/passkeys">[number];

export function RemovePasskey({
	passkey,
	isLast,
	onClose,
}: {
	readonly passkey: Passkey;
	/** There is no other passkey. */
	readonly isLast: boolean;
	readonly onClose: () => void;
}) {
	const methods = useAsk("GET /sign-in/methods", {});
	const providers = useAsk("GET /account/providers", {});
	const linked = providers.data?.filter(({ offered }) => offered).map(({ name }) => name);
	const others = [...(methods.data?.code === true ? ["a code by e-mail"] : []), ...(linked ?? [])];
	const remove = useChange("DELETE /account/passkeys/:id", () => {
		say(`The passkey ${passkey.name} is removed.`);
		onClose();
	});
	return (
		<Confirm
			title={`Remove the passkey ${passkey.name}?`}
			action="Remove passkey"
			isPending={remove.isPending}
			isReady={methods.data !== undefined && linked !== undefined && (!isLast || others.length > 0)}
			error={remove.error}
			onClose={onClose}
			onConfirm={() => remove.mutate({ params: { id: passkey.id } })}
		>
			<Text size="sm">Nobody signs in with it any more. Where you are signed in now you stay so.</Text>
			<Answer query={methods} what="other ways to sign in">
				{() => (
					<Answer query={providers} what="your providers">
						{() =>
							!isLast ? (
								<Text size="sm">You can sign in with your other passkeys.</Text>
							) : others.length > 0 ? (
								<Text size="sm">It is your last one. Without it you sign in with {others.join(" or ")}.</Text>
							) : (
								<Text size="sm" fw={600}>
									It is the last way into your account, so it stays until you have added another one.
								</Text>
							)
						}
					</Answer>
				)}
			</Answer>
		</Confirm>
	);
}
