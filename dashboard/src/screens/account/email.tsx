/**
 * Changes the account's e-mail address in two steps: the server mails a code to the new address,
 * and the user enters it. Without a mail provider the dialog says that this is not possible.
 */

import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { Dialog } from "../../components/dialog";
import { formErrors } from "../../components/field-errors";
import { notify } from "../../components/notify";

export function ChangeEmail({ onClose }: { readonly onClose: () => void }) {
	const methods = useAsk("GET /sign-in/methods", {});
	return (
		<Dialog title="Change your e-mail address" onClose={onClose}>
			<Answer query={methods} what="sign-in methods">
				{({ code }) =>
					code ? (
						<Steps onClose={onClose} />
					) : (
						<Text size="sm">
							This server sends no e-mail, so it cannot verify a new address. Its operator can set MAIL_PROVIDER.
						</Text>
					)
				}
			</Answer>
		</Dialog>
	);
}

const ADDRESS_ERRORS = ["email", "email_not_available"];
const CODE_ERRORS = ["code", "sign_in_failed"];

function Steps({ onClose }: { readonly onClose: () => void }) {
	const [email, setEmail] = useState("");
	const [code, setCode] = useState("");
	const send = useChange("POST /account/email");
	const change = useChange("PUT /account/email", (answer) => {
		notify(`Your e-mail address is now ${answer.email}.`);
		onClose();
	});
	const attempt = send.data?.attempt;
	const sendErrors = formErrors(send.error, ADDRESS_ERRORS);
	const changeErrors = formErrors(change.error, CODE_ERRORS);
	return (
		<form
			onSubmit={(event) => {
				event.preventDefault();
				if (attempt === undefined) send.mutate({ body: { email } });
				else change.mutate({ body: { attempt, email, code } });
			}}
		>
			{attempt === undefined ? (
				<Stack>
					<Text size="sm">We send a code to the new address. Enter it here to verify the address.</Text>
					<TextInput
						label="New e-mail address"
						type="email"
						error={sendErrors.at(...ADDRESS_ERRORS)}
						autoComplete="email"
						required
						data-autofocus
						value={email}
						onChange={(event) => setEmail(event.currentTarget.value)}
					/>
					{sendErrors.rest === null ? null : <Problem error={sendErrors.rest} />}
					<Group justify="flex-end">
						<Button type="submit" loading={send.isPending}>
							Send code
						</Button>
					</Group>
				</Stack>
			) : (
				<Stack>
					<Text size="sm" role="status">
						If no other account uses {email}, a code is on its way. It is valid for ten minutes. The change signs out
						your other sessions and notifies the old address.
					</Text>
					<TextInput
						label="Code"
						error={changeErrors.at(...CODE_ERRORS)}
						required
						autoFocus
						inputMode="numeric"
						autoComplete="one-time-code"
						value={code}
						onChange={(event) => setCode(event.currentTarget.value)}
					/>
					{changeErrors.rest === null ? null : <Problem error={changeErrors.rest} />}
					<Group justify="flex-end">
						<Button variant="default" onClick={() => send.reset()}>
							Use another address
						</Button>
						<Button type="submit" loading={change.isPending}>
							Change address
						</Button>
					</Group>
				</Stack>
			)}
		</form>
	);
}
