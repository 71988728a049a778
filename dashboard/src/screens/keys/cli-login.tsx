/**
 * Confirms `capstan login`: creates an API key and hands it to the command that asked, on this
 * computer. The key travels in the fragment of an address of 127.0.0.1, so no server sees it, and
 * the command accepts it only with the state that it gave to this page.
 */
import { Alert, Button, NativeSelect, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useSearch } from "wouter";
import { useChange } from "../../api";
import { Answer } from "../../components/answer";
import { Empty, Screen } from "../../components/screen";
import { lastOrganization, useOrganizations } from "../../organizations";
import { KeyForm } from "./key-form";

const LONGEST_NAME = 64;

interface Command {
	readonly port: number;
	readonly state: string;
	readonly computer: string;
}

/** The command that the address names; undefined for an address that no command printed. */
function commandOf(search: string): Command | undefined {
	const query = new URLSearchParams(search);
	const [port, state] = [query.get("port") ?? "", query.get("state") ?? ""];
	const isKnown = /^[1-9]\d{3,4}$/.test(port) && Number(port) <= 65_535 && /^[\w-]{43}$/.test(state);
	const name = (query.get("name") ?? "").replace(/[^\w .-]/g, "").slice(0, LONGEST_NAME);
	return isKnown ? { port: Number(port), state, computer: name || "a computer without a name" } : undefined;
}

export default function CliLogin() {
	const command = commandOf(useSearch());
	return (
		<Screen title="Sign in a command line">
			{command === undefined ? (
				<Empty title="This address is not complete">
					Run capstan login again, and open the address that it prints.
				</Empty>
			) : (
				<Confirmation command={command} />
			)}
		</Screen>
	);
}

function Confirmation({ command: { port, state, computer } }: { readonly command: Command }) {
	const organizations = useOrganizations();
	const [chosen, setChosen] = useState(lastOrganization);
	const [isOpen, setOpen] = useState(false);
	const create = useChange("POST /apikey", ({ key }) => {
		// Replaces this page, so that Back does not hand over another key.
		location.replace(`http://127.0.0.1:${port}/#${new URLSearchParams({ key, state })}`);
	});
	return (
		<Answer query={organizations} what="your organizations">
			{(known) => {
				const organization = known.find(({ id }) => id === chosen) ?? known[0];
				if (organization === undefined) {
					return <Empty title="No organizations">Ask an administrator of an organization to invite you.</Empty>;
				}
				return (
					<Stack align="flex-start" maw="36rem">
						<Text>
							A command line on <strong>{computer}</strong> asks for an API key. It can then do everything that the
							roles of the key allow.
						</Text>
						<Alert color="yellow" title="Did you just run capstan login?">
							Continue only if you did, on this computer. If a message or another person sent you here, close this page.
						</Alert>
						<NativeSelect
							label="Organization"
							value={organization.id}
							onChange={(event) => setChosen(event.currentTarget.value)}
							data={known.map(({ id, name }) => ({ value: id, label: name }))}
						/>
						<Button onClick={() => setOpen(true)}>Choose the roles</Button>
						{isOpen ? (
							<KeyForm
								orgId={organization.id}
								title={`API key for ${computer}`}
								action="Create key and sign in"
								name={`capstan on ${computer}`}
								isPending={create.isPending || create.isSuccess}
								error={create.error}
								onClose={() => setOpen(false)}
								onSubmit={(fields) => create.mutate({ body: { ...fields, expires_at: fields.expires_at ?? null } })}
							/>
						) : null}
					</Stack>
				);
			}}
		</Answer>
	);
}
