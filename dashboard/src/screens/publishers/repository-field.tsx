/**
 * A public repository by its name: the server asks the provider for the ids. Where it finds none,
 * the ids are entered by hand, and the field says how to find them.
 */
import { Button, Code, Group, TextInput } from "@mantine/core";
import { useState } from "react";
import type { RepositoryHost } from "../../../../src/domain/ci/repository";
import { type AnswerOf, useChange } from "../../api";
import { Problem } from "../../components/answer";
import { Note } from "../../components/card";
import { formErrors } from "../../components/field-errors";

type Found = AnswerOf<"POST /publisher/repository">;

const HOSTS: Readonly<Record<RepositoryHost, string>> = { github: "GitHub", gitlab: "GitLab" };

export function RepositoryField({
	appId,
	host,
	help,
	isOther,
	onFound,
}: {
	readonly appId: string;
	readonly host: RepositoryHost;
	/** A command that finds the ids of any repository. */
	readonly help: string;
	/** The ids of one are entered already. */
	readonly isOther: boolean;
	readonly onFound: (found: Found) => void;
}) {
	const [text, setText] = useState("");
	const find = useChange("POST /publisher/repository", (answer) => {
		if (answer.state === "found") onFound(answer);
	});
	const errors = formErrors(find.error, ["repository"]);
	const isReady = text.trim() !== "" && !find.isPending;
	const submit = () => {
		if (isReady) find.mutate({ body: { app_id: appId, provider: host, repository: text.trim() } });
	};
	return (
		<>
			<Group align="flex-end" wrap="nowrap">
				<TextInput
					label={isOther ? "Another repository (optional)" : "Repository"}
					placeholder={host === "github" ? "acme/shop" : "group/project"}
					error={errors.at("repository")}
					flex={1}
					maxLength={512}
					value={text}
					onChange={(event) => setText(event.currentTarget.value)}
					onKeyDown={(event) => {
						if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
						// Not the whole form.
						event.preventDefault();
						submit();
					}}
				/>
				<Button variant="default" loading={find.isPending} disabled={!isReady} onClick={submit}>
					Find ids
				</Button>
			</Group>
			{errors.rest === null ? null : <Problem error={errors.rest} />}
			{find.data === undefined ? (
				<span className="muted">Its ids are found by the name, and the jobs are matched by the ids.</span>
			) : (
				<Result answer={find.data} host={HOSTS[host]} help={help} />
			)}
		</>
	);
}

function Result({ answer, host, help }: { readonly answer: Found; readonly host: string; readonly help: string }) {
	const { state, repository, default_branch } = answer;
	if (state === "found") {
		return (
			<Note tone="ok" title={`Found ${repository}`} isAlert>
				<span>
					{default_branch === null ? "" : `Its default branch is ${default_branch}. `}
					Jobs are matched by the ids, so a repository that takes over the name later cannot publish.
				</span>
			</Note>
		);
	}
	return (
		<Note
			tone="warn"
			title={state === "not_found" ? `${host} shows no public repository ${repository}` : `${host} did not answer`}
			isAlert
		>
			<span>
				{state === "not_found" ? "It is private or written in another way. " : "The server may be without internet. "}
				Enter the ids below. They are printed by: <Code>{help}</Code>
			</span>
		</Note>
	);
}
