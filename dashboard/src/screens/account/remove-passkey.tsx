/**
 * Confirms the removal of a passkey and says how the user signs in without it. The last sign-in
 * method cannot be removed.
 */
import { Text } from "@mantine/core";
import { type AnswerOf, useAsk, useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Confirm } from "../../components/form-dialog";
import { notify } from "../../components/notify";

type Passkey = AnswerOf<"GET /account/passkeys">[number];

export function RemovePasskey({
	passkey,
	isLast,
	onClose,
}: {
	readonly passkey: Passkey;
	/** Whether the account has no other passkey. */
	readonly isLast: boolean;
	readonly onClose: () => void;
}) {
	const methods = useAsk("GET /sign-in/methods", {});
	const providers = useAsk("GET /account/providers", {});
	const linked = providers.data?.filter(({ offered }) => offered).map(({ name }) => name);
	const others = [...(methods.data?.code === true ? ["a code by e-mail"] : []), ...(linked ?? [])];
	const remove = useChange("DELETE /account/passkeys/:id", () => {
		notify(`Passkey ${passkey.name} removed.`);
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
			<Text size="sm">It can no longer sign in. Current sessions continue.</Text>
			<Answer query={methods} what="other ways to sign in">
				{() => (
					<Answer query={providers} what="your providers">
						{() =>
							!isLast ? (
								<Text size="sm">You can still sign in with your other passkeys.</Text>
							) : others.length > 0 ? (
								<Text size="sm">This is your last passkey. You can still sign in with {others.join(" or ")}.</Text>
							) : (
								<Text size="sm" fw={600}>
									This is your only way to sign in. Add another passkey before you remove it.
								</Text>
							)
						}
					</Answer>
				)}
			</Answer>
		</Confirm>
	);
}
