/**
 * Confirms the user's identity with a passkey, a code or a provider, without leaving the screen.
 */

import { Button, Group, Stack, Text, TextInput } from "@mantine/core";
import { browserSupportsWebAuthn, startAuthentication } from "@simplewebauthn/browser";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { RECENT_SIGN_IN_MINUTES } from "../../../src/domain/defaults";
import { type AnswerOf, api, ask, leaveFor, queryClient, useAsk } from "../api";
import { type IdentityRequest, isDismissed } from "../identity";
import { Answer, Problem } from "./answer";
import { Dialog } from "./dialog";

/**
 * BroadcastChannel on which the sign-in page reports a confirmation made in its separate window.
 */
const CONFIRMED = "capstan-confirmed";
const PROVIDER_WINDOW = "popup,width=520,height=680";

type Account = AnswerOf<"GET /account">;
type Methods = AnswerOf<"GET /sign-in/methods">;

export default function ConfirmIdentity({ request }: { readonly request: IdentityRequest }) {
	const { hasEnded } = request;
	// Without a session the account is the one that the page was loaded for.
	const account = useAsk("GET /account", {}, { enabled: !hasEnded });
	const methods = useAsk("GET /sign-in/methods", {});
	return (
		<Dialog
			onClose={() => request.settle(false)}
			title={hasEnded ? "Sign in again" : "Confirm it's you"}
			size="md"
			isDirty={false}
		>
			<Answer query={account} what="your account">
				{(known) => (
					<Answer query={methods} what="sign-in methods">
						{(ways) => (
							<Ways
								account={known}
								hasEnded={hasEnded}
								ways={request.byPasskey ? { ...ways, code: false, providers: [] } : ways}
								onConfirmed={() => request.settle(true)}
							/>
						)}
					</Answer>
				)}
			</Answer>
		</Dialog>
	);
}

function Ways({
	account,
	hasEnded,
	ways,
	onConfirmed,
}: {
	readonly account: Account;
	readonly hasEnded: boolean;
	readonly ways: Methods;
	readonly onConfirmed: () => void;
}) {
	const [code, setCode] = useState("");
	/** The form was filled in for this account, so another account starts over. */
	const finish = async (email: string) => {
		if (email !== account.email) return leaveFor("/dashboard/");
		await queryClient.invalidateQueries({ queryKey: ["GET /account"] });
		onConfirmed();
	};
	useEffect(() => {
		const channel = new BroadcastChannel(CONFIRMED);
		channel.onmessage = ({ data }) => void finish(String(data));
		return () => channel.close();
	});
	const passkey = useMutation({
		mutationFn: async () => {
			const begun = await ask("POST /sign-in/passkey/options", { body: {} });
			const credential = await startAuthentication({
				optionsJSON: begun.options as unknown as Parameters<typeof startAuthentication>[0]["optionsJSON"],
			});
			return ask("POST /sign-in/passkey", { body: { attempt: begun.attempt, credential: credential as never } });
		},
		onSuccess: ({ email }) => finish(email),
	});
	const sent = useMutation({ mutationFn: () => ask("POST /sign-in/code", { body: { email: account.email } }) });
	const verify = useMutation({
		mutationFn: (attempt: string) => ask("POST /sign-in/code/verify", { body: { attempt, code } }),
		onSuccess: ({ email }) => finish(email),
	});
	const elsewhere = useMutation({
		mutationFn: () => api("GET /account", {}),
		onSuccess: (now) =>
			new Date(now.recent_sign_in_until).getTime() > Date.now() ? finish(now.email) : Promise.resolve(),
	});
	const inTerminal = ways.code_delivery === "terminal";
	const hasPasskey = ways.passkey && account.passkeys > 0 && browserSupportsWebAuthn();
	const isStuck = !hasPasskey && !ways.code && ways.providers.length === 0;
	const error = [passkey.error, sent.error, verify.error].find((one) => one !== null && !isDismissed(one));
	return (
		<Stack>
			<Text>
				{hasEnded
					? `The session of ${account.email} ended.`
					: `This needs a sign-in from the last ${RECENT_SIGN_IN_MINUTES} minutes.`}{" "}
				Your form stays as it is and continues afterwards.
			</Text>
			{hasPasskey ? (
				<Button data-autofocus loading={passkey.isPending} onClick={() => passkey.mutate()}>
					Use a passkey
				</Button>
			) : null}
			{ways.code && sent.data === undefined ? (
				<Button variant={hasPasskey ? "default" : "filled"} loading={sent.isPending} onClick={() => sent.mutate()}>
					{inTerminal ? "Print a code in the terminal" : `Send a code to ${account.email}`}
				</Button>
			) : null}
			{sent.data === undefined ? null : (
				<form
					onSubmit={(event) => {
						event.preventDefault();
						// React passes events of portals on to the form below.
						event.stopPropagation();
						verify.mutate(sent.data.attempt);
					}}
				>
					<Stack>
						<TextInput
							label="Code"
							description={
								inTerminal
									? "We printed six digits in the terminal where npm start runs. In the background, they are in capstan.log of its state directory."
									: `We sent six digits to ${account.email}.`
							}
							data-autofocus
							required
							inputMode="numeric"
							autoComplete="one-time-code"
							maxLength={6}
							value={code}
							onChange={(event) => setCode(event.currentTarget.value)}
						/>
						<Group justify="flex-end">
							<Button type="submit" loading={verify.isPending} disabled={code.length < 6}>
								Confirm
							</Button>
						</Group>
					</Stack>
				</form>
			)}
			{ways.providers.map(({ id, name }) => (
				<Button
					key={id}
					variant="default"
					onClick={() =>
						window.open(
							`/sign-in/provider/${id}?next=${encodeURIComponent("/sign-in?confirmed=1")}`,
							"capstan-confirm",
							PROVIDER_WINDOW,
						)
					}
				>
					Continue with {name}
				</Button>
			))}
			{isStuck ? (
				<>
					<Text>
						You cannot sign in again on this page. Open a new sign-in link in another tab of this browser, then
						continue.
					</Text>
					<Button loading={elsewhere.isPending} onClick={() => elsewhere.mutate()}>
						Continue after signing in
					</Button>
				</>
			) : null}
			{error === undefined || error === null ? null : <Problem error={error} />}
		</Stack>
	);
}
