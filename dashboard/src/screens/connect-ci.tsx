/**
 * Connects an app's CI: shows the workflow, filled in for the app's newest store build and the channel's update limit, so that bundles
 * uploaded by CI reach devices.
 */
import { Alert, Code, Group, NativeSelect, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { usePage } from "../api";
import { CI_FILES, type CiSystem, previewWorkflow, releaseReach, releaseWorkflow } from "../ci-texts";
import { ButtonLink, TextLink } from "../parts/link";
import { Section } from "../parts/screen";
import { CodeBlock } from "../parts/secret";
import { appPath, bundlePath, organizationPath } from "../paths";
import { useOrganizationMay } from "../permissions";
import { FIRST_STORE_VERSION, newestStoreVersion, parseStoreVersion } from "../store-version";

const LOOK_AGAIN_MS = 3_000;

interface ConnectCiProps {
	readonly appId: string;
	readonly orgId: string | undefined;
}

export function ConnectCi({ appId, orgId }: ConnectCiProps) {
	const [system, setSystem] = useState<CiSystem>("github");
	const [kind, setKind] = useState<"release" | "preview">("release");
	const bundles = usePage("GET /bundle", { query: { app_id: appId } }, 0, { everyMs: LOOK_AGAIN_MS });
	const first = bundles.data?.items[0];
	const isRelease = kind === "release";
	return (
		<Section title="2. Your CI">
			{first === undefined ? (
				<Alert color="gray" title="Waiting for the first upload" role="status">
					This page looks every few seconds. Push once the workflow and its secret are in place.
				</Alert>
			) : (
				<Alert color="green" title="An upload arrived" role="status">
					The newest bundle is <TextLink to={bundlePath(appId, first.name)}>{first.name}</TextLink>
				</Alert>
			)}
			<Group align="flex-start">
				<NativeSelect
					label="CI system"
					w="24rem"
					maw="100%"
					value={system}
					onChange={(event) => setSystem(event.currentTarget.value === "gitlab" ? "gitlab" : "github")}
					data={[
						{ value: "github", label: "GitHub Actions" },
						{ value: "gitlab", label: "GitLab CI" },
					]}
				/>
				<NativeSelect
					label="What CI does"
					w="24rem"
					maw="100%"
					value={kind}
					onChange={(event) => setKind(event.currentTarget.value === "preview" ? "preview" : "release")}
					data={[
						{ value: "release", label: "Releases every push to the main branch" },
						{ value: "preview", label: `Previews every ${system === "gitlab" ? "merge" : "pull"} request` },
					]}
				/>
			</Group>
			<Text>
				1. Create an API key with the role {isRelease ? "App uploader" : "App previews"} of this app, and keep it as{" "}
				{system === "gitlab" ? "the masked variable" : "the secret"} <Code>CAPSTAN_KEY</Code> of your{" "}
				{system === "gitlab"
					? `project${isRelease ? "" : "; merge requests get it only if it is not protected"}`
					: "repository"}
				.
			</Text>
			<CreateKey orgId={orgId} />
			{isRelease ? <ReleaseCi appId={appId} system={system} /> : <PreviewCi appId={appId} system={system} />}
		</Section>
	);
}

function CreateKey({ orgId }: { readonly orgId: string | undefined }) {
	const may = useOrganizationMay(orgId ?? "");
	return orgId !== undefined && may("org.manage_apikeys") === true ? (
		<ButtonLink to={organizationPath(orgId, "keys")} variant="default" w="fit-content">
			Create an API key
		</ButtonLink>
	) : (
		<Text size="sm" c="dimmed">
			Ask an administrator of the organization for the key.
		</Text>
	);
}

function PreviewCi({ appId, system }: { readonly appId: string; readonly system: CiSystem }) {
	const request = system === "gitlab" ? "merge request" : "pull request";
	return (
		<>
			<Text>
				2. Add this to <Code>{CI_FILES[system].preview}</Code>:
			</Text>
			<CodeBlock
				label={system === "gitlab" ? ".gitlab-ci.yml" : "preview.yml"}
				text={previewWorkflow(system, __CLI_VERSION__, appId)}
			/>
			<Text>
				3. Testers get {request} 128 on the channel <Code>pr-128</Code>: as <Code>defaultChannel</Code> of their build,
				or with <Code>CapacitorUpdater.setChannel(&#123; channel: "pr-128" &#125;)</Code>.
			</Text>
			<Text size="sm" c="dimmed">
				Previews reach every store build, whatever its version. They are deleted when the {request} is closed, and
				testers' devices go back to what everybody else gets.
			</Text>
		</>
	);
}

function ReleaseCi({ appId, system }: { readonly appId: string; readonly system: CiSystem }) {
	const [typed, setTyped] = useState<string | undefined>();
	const [chosen, setChosen] = useState("");
	const devices = usePage("GET /device", { query: { app_id: appId } }, 0, { everyMs: LOOK_AGAIN_MS });
	const channels = usePage("GET /channel", { query: { app_id: appId } }, 0);
	const known = channels.data?.items ?? [];
	const channel = known.find(({ name }) => name === chosen) ?? known.find((each) => each.public) ?? known[0];
	const name = channel?.name ?? "production";
	const seen = newestStoreVersion(devices.data?.items ?? []);
	const text = typed ?? seen ?? FIRST_STORE_VERSION;
	const store = parseStoreVersion(text);
	const release =
		store === undefined
			? undefined
			: { cliVersion: __CLI_VERSION__, appId, channel: name, store, limit: channel?.disableAutoUpdate ?? "major" };
	const { reach, next } = release === undefined ? { reach: "", next: "" } : releaseReach(release);
	return (
		<>
			<Group align="flex-start">
				<TextInput
					label="Newest store version"
					w="24rem"
					maw="100%"
					description={
						seen === undefined
							? "No device was seen yet: enter the version of your newest store build."
							: `The newest that a device reported is ${seen}.`
					}
					error={store === undefined ? "Enter a version such as 2.3.0." : undefined}
					value={text}
					onChange={(event) => setTyped(event.currentTarget.value)}
				/>
				{known.length > 0 ? (
					<NativeSelect
						label="Channel"
						w="24rem"
						maw="100%"
						description="Devices on it get each release."
						value={name}
						onChange={(event) => setChosen(event.currentTarget.value)}
						data={known.map((each) => each.name)}
					/>
				) : null}
			</Group>
			{channels.isSuccess && known.length === 0 ? (
				<Text>
					Create the public channel <Code>production</Code> before the first release:{" "}
					<TextLink to={appPath(appId, "channels")}>Channels</TextLink>
				</Text>
			) : null}
			{release === undefined ? null : (
				<>
					<Text>
						2. {system === "gitlab" ? "Add this to" : "Keep this as"} <Code>{CI_FILES[system].release}</Code>:
					</Text>
					<CodeBlock
						label={system === "gitlab" ? ".gitlab-ci.yml" : "release.yml"}
						text={releaseWorkflow(system, release)}
					/>
					<Alert color="blue" title={`These releases reach ${reach}`}>
						{next}
					</Alert>
				</>
			)}
		</>
	);
}
