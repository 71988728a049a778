/**
 * Another e-mail address for the reader's account, in two steps: a code goes to the new one, and counts when it is sent back. Where the
 * service sends no mail it says so, because no code could come.
 */
import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useAsk, useChange } from "../api";
import { Answer, Problem } from "../parts/answer";
import { Dialog } from "../parts/dialog";
import { say } from "../parts/say";

export function ChangeEmail({ onClose }: { readonly onClose: () => void }) {
	const methods = useAsk("GET /sign-in/methods", {});
	return (
		<Dialog title="Change your e-mail address" onClose={onClose}>
			<Answer query={methods} what="how people sign in here">
				{({ code }) =>
					code ? (
						<Steps onClose={onClose} />
					) : (
						<Text size="sm">
							This service sends no mail, so nothing can prove a new address. Its operator can set MAIL_PROVIDER.
						</Text>
					)
				}
			</Answer>
		</Dialog>
	);
}

function Steps({ onClose }: { readonly onClose: () => void }) {
	const [email, setEmail] = useState("");
	const [code, setCode] = useState("");
	const send = useChange("POST /account/email");
	const change = useChange("PUT /account/email", (answer) => {
		say(`Your address is ${answer.email} now.`);
		onClose();
	});
	const attempt = send.data?.attempt;
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
					<Text size="sm">A code goes to the new address; it counts when you have proved it with the code.</Text>
					<TextInput
						label="New e-mail address"
						type="email"
						autoComplete="email"
						required
						data-autofocus
						value={email}
						onChange={(event) => setEmail(event.currentTarget.value)}
					/>
					{send.isError ? <Problem error={send.error} /> : null}
					<Group justify="flex-end">
						<Button type="submit" loading={send.isPending}>
							Send the code
						</Button>
					</Group>
				</Stack>
			) : (
				<Stack>
					<Text size="sm" role="status">
						If nobody else has {email}, a code is on its way to it; it is good for ten minutes. Afterwards you are
						signed out everywhere else, and the old address is told.
					</Text>
					<TextInput
						label="Code"
						required
						autoFocus
						inputMode="numeric"
						autoComplete="one-time-code"
						value={code}
						onChange={(event) => setCode(event.currentTarget.value)}
					/>
					{change.isError ? <Problem error={change.error} /> : null}
					<Group justify="flex-end">
						<Button variant="default" onClick={() => send.reset()}>
							Another address
						</Button>
						<Button type="submit" loading={change.isPending}>
							Change the address
						</Button>
					</Group>
				</Stack>
			)}
		</form>
	);
}
