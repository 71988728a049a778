/** The user's account in cards: ways to sign in, sessions, activity, and its deletion at the end. */
import { Button, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { goToSignIn, useAsk, useChange, usePage } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { Badge } from "../../components/badge";
import { timeText } from "../../components/dates";
import { Confirm } from "../../components/form-dialog";
import { notify } from "../../components/notify";
import { Screen } from "../../components/screen";
import { SettingsAct, SettingsFacts } from "../../components/settings-card";
import { ShortcutSwitch } from "../../components/shortcut-switch";
import { DataTable, Pager, pageOf, usePageNumber } from "../../components/table";
import { Time } from "../../components/time";
import { useAccountDeletionPlan } from "../../dry-runs";
import { ChangeEmail } from "./email";
import { EventMails } from "./event-mails";
import { Passkeys } from "./passkeys";
import { Providers } from "./providers";

export default function Account() {
	return (
		<Screen title="Your account">
			<EmailAddress />
			<Passkeys />
			<Providers />
			<EventMails />
			<SettingsFacts title="Keyboard" note="Applies at once, in this browser only.">
				<ShortcutSwitch />
			</SettingsFacts>
			<Sessions />
			<AccountActivity />
			<DeleteSection />
		</Screen>
	);
}

function EmailAddress() {
	const account = useAsk("GET /account", {});
	const [isChanging, setChanging] = useState(false);
	return (
		<SettingsFacts title="E-mail address" note="Signs you in, and gets the mails of this server.">
			<Answer query={account} what="your account">
				{({ email, email_verified, created_at }) => (
					<SettingsAct
						text={
							<>
								<strong className="strong">{email}</strong>
								<div className="said">
									{email_verified ? "Verified." : "Not verified. Sign in with a code once to verify it."} Account since{" "}
									<Time value={created_at} />.
								</div>
							</>
						}
					>
						<Button variant="default" onClick={() => setChanging(true)}>
							Change e-mail address
						</Button>
					</SettingsAct>
				)}
			</Answer>
			{isChanging ? <ChangeEmail onClose={() => setChanging(false)} /> : null}
		</SettingsFacts>
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
		<SettingsFacts title="Sessions" note="Browsers that are signed in to your account.">
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
			<SettingsAct text="Signs out every browser but this one.">
				<Button
					variant="default"
					loading={endOthers.isPending}
					onClick={() => endOthers.mutate({ query: { others: "true" } })}
				>
					Sign out other sessions
				</Button>
			</SettingsAct>
			{end.isError ? <Problem error={end.error} /> : null}
			{endOthers.isError ? <Problem error={endOthers.error} /> : null}
		</SettingsFacts>
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
		<SettingsFacts title="Account activity" note="Sign-ins, and changes of how you sign in.">
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
		</SettingsFacts>
	);
}

function DeleteSection() {
	const [isAsking, setAsking] = useState(false);
	return (
		<SettingsFacts title="Delete" note="This cannot be undone.">
			<SettingsAct text="Deletes your account, your roles and the API keys that you created.">
				<Button variant="danger" onClick={() => setAsking(true)}>
					Delete account
				</Button>
			</SettingsAct>
			{isAsking ? <DeleteAccount onClose={() => setAsking(false)} /> : null}
		</SettingsFacts>
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
