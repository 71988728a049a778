/** The user's account: ways to sign in, sessions, activity and deletion. */
import { Button, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { goToSignIn, useAsk, useChange, usePage } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { Badge } from "../../components/badge";
import { KeyValues } from "../../components/card";
import { Confirm } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { Screen, Section } from "../../components/screen";
import { ShortcutSwitch } from "../../components/shortcut-switch";
import { DataTable, Pager, pageOf, usePageNumber } from "../../components/table";
import { Time, timeText } from "../../components/time";
import { useAccountDeletionPlan } from "../../dry-runs";
import { ChangeEmail } from "./email";
import { EventMails } from "./event-mails";
import { Passkeys } from "./passkeys";
import { Providers } from "./providers";

export default function Account() {
	const account = useAsk("GET /account", {});
	const [isChanging, setChanging] = useState(false);
	return (
		<Screen
			title="Your account"
			actions={
				<Button variant="default" onClick={() => setChanging(true)}>
					Change e-mail address
				</Button>
			}
		>
			<Answer query={account} what="your account">
				{({ email, email_verified, created_at }) => (
					<KeyValues
						items={[
							["E-mail address", email],
							["Verified", email_verified ? "Yes" : "No. Sign in with a code once to verify it"],
							["Created", <Time key="since" value={created_at} />],
						]}
					/>
				)}
			</Answer>
			<Passkeys />
			<Providers />
			<EventMails />
			<Section title="Keyboard">
				<ShortcutSwitch />
			</Section>
			<Sessions />
			<AccountActivity />
			<DeleteSection />
			{isChanging ? <ChangeEmail onClose={() => setChanging(false)} /> : null}
		</Screen>
	);
}

const BROWSERS = ["Edg", "OPR", "Firefox", "Chrome", "Safari"];
const SYSTEMS = ["Android", "iPhone", "iPad", "Windows", "Mac OS X", "Linux"];

/** A short name for the user agent, which is shown in full on hover. */
function browserText(userAgent: string | null): string {
	if (userAgent === null) return "Unknown";
	const browser = BROWSERS.find((name) => userAgent.includes(name));
	const system = SYSTEMS.find((name) => userAgent.includes(name));
	if (browser === undefined) return userAgent;
	return `${browser === "Edg" ? "Edge" : browser === "OPR" ? "Opera" : browser}${system === undefined ? "" : ` on ${system}`}`;
}

function Sessions() {
	const sessions = useAsk("GET /account/sessions", {});
	const end = useChange("DELETE /account/sessions/:id", () => notify("Session ended."));
	const [requestedPage, setPage] = usePageNumber("sessions");
	const endOthers = useChange("DELETE /account/sessions", () => notify("All other sessions ended."));
	return (
		<Section
			title="Sessions"
			actions={
				<Button
					size="xs"
					variant="default"
					loading={endOthers.isPending}
					onClick={() => endOthers.mutate({ query: { others: "true" } })}
				>
					Sign out other sessions
				</Button>
			}
		>
			<Answer query={sessions} what="your sessions">
				{(known) => {
					const { page, items, hasNext } = pageOf(known, requestedPage);
					return (
						<Stack gap="sm">
							<DataTable
								label="Sessions"
								rows={items}
								rowKey={({ id }) => id}
								columns={[
									{
										title: "Browser",
										cell: ({ user_agent, current }) => (
											<Stack gap={4} align="flex-start">
												<Text size="sm" title={user_agent ?? ""}>
													{browserText(user_agent)}
												</Text>
												{current ? <Badge>This browser</Badge> : null}
											</Stack>
										),
									},
									{ title: "IP address", wideOnly: true, cell: ({ ip_address }) => ip_address ?? "—" },
									{ title: "Last used", cell: ({ last_seen_at }) => <Time value={last_seen_at} /> },
									{
										title: "Actions",
										cell: ({ id, current, user_agent, last_seen_at }) =>
											current ? null : (
												<Button
													size="xs"
													variant="default"
													aria-label={`End session of ${browserText(user_agent)}, last used ${timeText(last_seen_at)}`}
													onClick={() => end.mutate({ params: { id } })}
												>
													End session
												</Button>
											),
									},
								]}
							/>
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
						</Stack>
					);
				}}
			</Answer>
			{end.isError ? <Problem error={end.error} /> : null}
			{endOthers.isError ? <Problem error={endOthers.error} /> : null}
		</Section>
	);
}

const ACTIVITY: Readonly<Record<string, string>> = {
	"email.change": "E-mail address changed",
	"passkey.create": "Passkey added",
	"passkey.delete": "Passkey removed",
	"passkey.rename": "Passkey renamed",
	"provider.unlink": "Provider unlinked",
	"session.revoke": "Session ended",
	"session.revoke_all": "Sessions ended",
	sign_in: "Signed in",
	sign_out: "Signed out",
	"sign_in.refused": "Sign-in refused",
	"sign_in_link.create": "Sign-in link created",
};

function AccountActivity() {
	const [page, setPage] = usePageNumber("log");
	const log = usePage("GET /account/log", {}, page);
	return (
		<Section title="Account activity">
			<Answer query={log} what="account activity">
				{({ items, hasNext }) => (
					<Stack gap="sm">
						<DataTable
							label="Account activity"
							rows={items}
							rowKey={({ id }) => id}
							columns={[
								{ title: "Event", cell: ({ action }) => ACTIVITY[action] ?? action },
								{ title: "When", cell: ({ at }) => <Time value={at} /> },
								{ title: "IP address", wideOnly: true, cell: ({ ip_address }) => ip_address ?? "—" },
							]}
						/>
						<Pager page={page} hasNext={hasNext} onPage={setPage} />
					</Stack>
				)}
			</Answer>
		</Section>
	);
}

function DeleteSection() {
	const [isAsking, setAsking] = useState(false);
	return (
		<Section title="Delete account">
			<Text size="sm">Deletes your roles and the API keys that you created. This cannot be undone.</Text>
			<Group>
				<Button variant="danger" onClick={() => setAsking(true)}>
					Delete account
				</Button>
			</Group>
			{isAsking ? <DeleteAccount onClose={() => setAsking(false)} /> : null}
		</Section>
	);
}

function DeleteAccount({ onClose }: { readonly onClose: () => void }) {
	const account = useAsk("GET /account", {});
	const plan = useAccountDeletionPlan();
	const remove = useChange("DELETE /account", goToSignIn);
	return (
		<Confirm
			title="Delete your account?"
			action="Delete account"
			typed={account.data?.email ?? ""}
			isPending={remove.isPending}
			isReady={plan.data !== undefined}
			error={remove.error}
			onConfirm={() => remove.mutate({})}
			onClose={onClose}
		>
			<Answer query={plan} what="the consequences">
				{({ left_organizations, revoked_api_keys }) => (
					<>
						<Text size="sm">This cannot be undone. It deletes:</Text>
						<ul>
							{left_organizations.map(({ id, name }) => (
								<li key={id}>your membership in {name}</li>
							))}
							{revoked_api_keys.map(({ id, name }) => (
								<li key={id}>the API key {name}, which stops working immediately</li>
							))}
							<li>your passkeys and sessions</li>
						</ul>
					</>
				)}
			</Answer>
		</Confirm>
	);
}
