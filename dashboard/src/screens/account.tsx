/** The reader's own account: how and where they are signed in, what happened to it, and its end. */
import { Badge, Button, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { goToSignIn, useAsk, useChange, usePage } from "../api";
import { Answer, Problem } from "../parts/answer";
import { Confirm } from "../parts/confirm";
import { Facts } from "../parts/facts";
import { say } from "../parts/say";
import { Screen, Section } from "../parts/screen";
import { DataTable, Pager, pageOf, usePageNumber } from "../parts/table";
import { Time, timeText } from "../parts/time";
import { useAccountDeletionPlan } from "../plans";
import { ChangeEmail } from "./account-email";
import { Passkeys } from "./account-passkeys";
import { Providers } from "./account-providers";

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
					<Facts
						facts={[
							["E-mail address", email],
							["Proved to be yours", email_verified ? "Yes" : "Not yet: sign in with a code once"],
							["Since", <Time key="since" value={created_at} />],
						]}
					/>
				)}
			</Answer>
			<Passkeys />
			<Providers />
			<Sessions />
			<History />
			<End />
			{isChanging ? <ChangeEmail onClose={() => setChanging(false)} /> : null}
		</Screen>
	);
}

const BROWSERS = ["Edg", "OPR", "Firefox", "Chrome", "Safari"];
const SYSTEMS = ["Android", "iPhone", "iPad", "Windows", "Mac OS X", "Linux"];

/** The whole text says more than anybody wants to read; it is there on hover. */
function browserText(userAgent: string | null): string {
	if (userAgent === null) return "Unknown";
	const browser = BROWSERS.find((name) => userAgent.includes(name));
	const system = SYSTEMS.find((name) => userAgent.includes(name));
	if (browser === undefined) return userAgent;
	return `${browser === "Edg" ? "Edge" : browser === "OPR" ? "Opera" : browser}${system === undefined ? "" : ` on ${system}`}`;
}

function Sessions() {
	const sessions = useAsk("GET /account/sessions", {});
	const end = useChange("DELETE /account/sessions/:id", () => say("That session is ended."));
	const [asked, setPage] = usePageNumber("sessions");
	const endOthers = useChange("DELETE /account/sessions", () => say("You are signed in here alone."));
	return (
		<Section
			title="Where you are signed in"
			actions={
				<Button
					size="xs"
					variant="default"
					loading={endOthers.isPending}
					onClick={() => endOthers.mutate({ query: { others: "true" } })}
				>
					Sign out everywhere else
				</Button>
			}
		>
			<Answer query={sessions} what="your sessions">
				{(known) => {
					const { page, items, hasNext } = pageOf(known, asked);
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
												{current ? (
													<Badge variant="light" tt="none">
														This one
													</Badge>
												) : null}
											</Stack>
										),
									},
									{ title: "Address", wideOnly: true, cell: ({ ip_address }) => ip_address ?? "—" },
									{ title: "Last used", cell: ({ last_seen_at }) => <Time value={last_seen_at} /> },
									{
										title: "Change",
										cell: ({ id, current, user_agent, last_seen_at }) =>
											current ? null : (
												<Button
													size="xs"
													variant="default"
													aria-label={`End the session of ${browserText(user_agent)}, last used ${timeText(last_seen_at)}`}
													onClick={() => end.mutate({ params: { id } })}
												>
													End
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

function History() {
	const [page, setPage] = usePageNumber("log");
	const log = usePage("GET /account/log", {}, page);
	return (
		<Section title="What happened to your account">
			<Answer query={log} what="your account's log">
				{({ items, hasNext }) => (
					<Stack gap="sm">
						<DataTable
							label="Account log"
							rows={items}
							rowKey={({ id }) => id}
							columns={[
								{ title: "What", cell: ({ action }) => action.replaceAll(/[._]/g, " ") },
								{ title: "When", cell: ({ at }) => <Time value={at} /> },
								{ title: "From where", wideOnly: true, cell: ({ ip_address }) => ip_address ?? "—" },
							]}
						/>
						<Pager page={page} hasNext={hasNext} onPage={setPage} />
					</Stack>
				)}
			</Answer>
		</Section>
	);
}

function End() {
	const [isAsking, setAsking] = useState(false);
	return (
		<Section title="Delete your account">
			<Text size="sm">Your roles and the API keys that you made go with it. It cannot be undone.</Text>
			<Group>
				<Button variant="default" onClick={() => setAsking(true)}>
					Delete your account
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
			<Answer query={plan} what="what would go">
				{({ left_organizations, revoked_api_keys }) => (
					<>
						<Text size="sm">This cannot be undone. With it go:</Text>
						<ul>
							{left_organizations.map(({ id, name }) => (
								<li key={id}>your part in {name}</li>
							))}
							{revoked_api_keys.map(({ id, name }) => (
								<li key={id}>the API key {name}, at once</li>
							))}
							<li>your passkeys and sessions</li>
						</ul>
					</>
				)}
			</Answer>
		</Confirm>
	);
}
