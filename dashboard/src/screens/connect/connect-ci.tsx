/**
 * The step that connects an app's CI: the workflow, filled in for the app's newest store build and
 * the channel's update limit, so that bundles uploaded by CI reach devices.
 */

import { Alert, Code, Group, NativeSelect, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { type CiSystem, ciFiles } from "../../../../src/client/ci-workflow";
import { CI_KEY_MINUTES, PREVIEW_DAYS } from "../../../../src/domain/defaults";
import { useCommandAddress, usePage } from "../../api";
import { Answer } from "../../components/answer";
import { ButtonLink, TextLink } from "../../components/link";
import { optionsOf } from "../../components/options";
import { CodeBlock } from "../../components/secret";
import { appPath, organizationPath } from "../../paths";
import { useOrganizationMay } from "../../permissions";
import { CI_FILES, type Login, previewWorkflow, releaseReach, releaseWorkflow } from "./ci-texts";
import { FIRST_STORE_VERSION, newestStoreVersion, parseStoreVersion } from "./store-version";

const LOOK_AGAIN_MS = 3_000;

interface ConnectCiProps {
	readonly appId: string;
	readonly orgId: string | undefined;
}

export function ConnectCi({ appId, orgId }: ConnectCiProps) {
	const [system, setSystem] = useState<CiSystem>("github");
	const [tool, setTool] = useState<"capstan" | "capgo">("capstan");
	return (
		<>
			<Group align="flex-start">
				<Choice
					label="CI system"
					value={system}
					options={{ github: "GitHub Actions", gitlab: "GitLab CI" }}
					onChange={setSystem}
				/>
				<Choice
					label="Command"
					value={tool}
					options={{ capstan: "capstan, which this server offers", capgo: "@capgo/cli" }}
					onChange={setTool}
				/>
			</Group>
			{tool === "capstan" ? (
				<CapstanCi appId={appId} system={system} />
			) : (
				<CapgoCi appId={appId} orgId={orgId} system={system} />
			)}
		</>
	);
}

interface ChoiceProps<Value extends string> {
	readonly label: string;
	readonly value: Value;
	/** Labels by value. */
	readonly options: Readonly<Record<Value, string>>;
	readonly onChange: (value: Value) => void;
}

function Choice<Value extends string>({ label, value, options, onChange }: ChoiceProps<Value>) {
	return (
		<NativeSelect
			label={label}
			w="24rem"
			maw="100%"
			value={value}
			onChange={(event) => onChange(event.currentTarget.value as Value)}
			data={optionsOf(options)}
		/>
	);
}

/** One file does both: releases and previews. */
function CapstanCi({ appId, system }: Omit<WorkflowProps, "login">) {
	const { origin } = location;
	const command = useCommandAddress();
	const filesWith = (address: string) =>
		ciFiles(system, {
			origin,
			command: address,
			appId,
			folder: "",
			webDir: "dist",
			branch: "main",
			installation: { manager: "npm", pinned: undefined, folder: "", lock: "package-lock.json" },
			build: [{ folder: "", command: "npm run build" }],
			isEncrypted: false,
		});
	return (
		<>
			<Text>1. Run this in your project. It writes the workflow, and makes the app trust your repository:</Text>
			<CodeBlock
				label="Terminal"
				text={`npx --yes ${origin}/capstan.tgz init --server ${origin} --app ${appId} --ci ${system}`}
			/>
			<Text>
				2. Commit the workflow and push. Pushes to the main branch are released, and each{" "}
				{system === "gitlab" ? "merge" : "pull"} request gets a preview with its own channel and QR code:{" "}
				<TextLink to={appPath(appId, "previews")}>Previews</TextLink>
			</Text>
			<Text>
				Or by hand: save the workflow with the build folder of your project, and add a publisher of the stage Release
				and one of the stage Preview for your repository. Its jobs then get keys of {CI_KEY_MINUTES} minutes, and
				nothing is stored. <a href="/docs/ci">Other CI systems</a>
			</Text>
			<ButtonLink to={appPath(appId, "publishers")} variant="default" w="fit-content">
				Trusted publishers
			</ButtonLink>
			<Answer what="the workflow" query={command}>
				{(address) =>
					filesWith(address).map(({ path, content }) => <CodeBlock key={path} label={path} text={content} />)
				}
			</Answer>
		</>
	);
}

function CapgoCi({ appId, orgId, system }: ConnectCiProps & { readonly system: CiSystem }) {
	const [kind, setKind] = useState<"release" | "preview">("release");
	const [isKeyless, setIsKeyless] = useState(true);
	const login: Login = { kind: isKeyless ? "keyless" : "key", origin: location.origin };
	const isRelease = kind === "release";
	return (
		<>
			<Group align="flex-start">
				<Choice
					label="Trigger"
					value={kind}
					options={{
						release: "Release every push to the main branch",
						preview: `Preview every ${system === "gitlab" ? "merge" : "pull"} request`,
					}}
					onChange={setKind}
				/>
				<Choice
					label="Credential"
					value={login.kind}
					options={{
						keyless: "None: the job's identity token",
						key: "An API key, saved in the CI system",
					}}
					onChange={(chosen) => setIsKeyless(chosen === "keyless")}
				/>
			</Group>
			{isKeyless ? <TrustRepository appId={appId} isRelease={isRelease} /> : null}
			{isKeyless ? null : <KeyStep system={system} isRelease={isRelease} orgId={orgId} />}
			{isRelease ? (
				<ReleaseCi appId={appId} system={system} login={login} />
			) : (
				<PreviewCi appId={appId} system={system} login={login} />
			)}
		</>
	);
}

function TrustRepository({ appId, isRelease }: { readonly appId: string; readonly isRelease: boolean }) {
	return (
		<>
			<Text>
				1. Add your repository as a publisher of the stage{" "}
				{isRelease ? "Release, with the branch of your releases" : "Preview"}. Its jobs then get a key of{" "}
				{CI_KEY_MINUTES} minutes, and nothing is stored. <a href="/docs/ci">All providers</a>
			</Text>
			<ButtonLink to={appPath(appId, "publishers")} variant="default" w="fit-content">
				Publishers
			</ButtonLink>
		</>
	);
}

interface KeyStepProps {
	readonly system: CiSystem;
	readonly isRelease: boolean;
	readonly orgId: string | undefined;
}

function KeyStep({ system, isRelease, orgId }: KeyStepProps) {
	return (
		<>
			<Text>
				1. Create an API key with the role {isRelease ? "App uploader" : "App previews"} for this app, and save it as{" "}
				{system === "gitlab" ? "the masked variable" : "the secret"} <Code>CAPSTAN_KEY</Code> of your{" "}
				{system === "gitlab"
					? `project${isRelease ? "" : "; merge requests can read it only if it is not protected"}`
					: "repository"}
				.
			</Text>
			<CreateKey orgId={orgId} />
		</>
	);
}

interface WorkflowProps {
	readonly appId: string;
	readonly system: CiSystem;
	readonly login: Login;
}

function CreateKey({ orgId }: { readonly orgId: string | undefined }) {
	const may = useOrganizationMay(orgId ?? "");
	return orgId !== undefined && may("org.manage_apikeys") === true ? (
		<ButtonLink to={organizationPath(orgId, "keys")} variant="default" w="fit-content">
			Create API key
		</ButtonLink>
	) : (
		<Text size="sm" c="dimmed">
			Ask an administrator of the organization to create the key.
		</Text>
	);
}

function PreviewCi({ appId, system, login }: WorkflowProps) {
	const request = system === "gitlab" ? "merge request" : "pull request";
	return (
		<>
			<Text>
				2. Add this to <Code>{CI_FILES[system].preview}</Code>:
			</Text>
			<CodeBlock
				label={system === "gitlab" ? ".gitlab-ci.yml" : "preview.yml"}
				text={previewWorkflow(system, __CLI_VERSION__, appId, login)}
			/>
			<Text>
				3. Testers get {request} 128 from the channel <Code>pr-128</Code>: set <Code>defaultChannel</Code> in their
				build, or call <Code>CapacitorUpdater.setChannel(&#123; channel: "pr-128" &#125;)</Code>. Its page has a QR
				code: <TextLink to={appPath(appId, "previews")}>Previews</TextLink>
			</Text>
			<Text size="sm" c="dimmed">
				Previews reach store builds of every version. Closing the {request}, or {PREVIEW_DAYS} days without an upload,
				deletes channel and bundles, and testers' devices return to their usual channel.{" "}
				<a href="/docs/previews">All about previews</a>
			</Text>
		</>
	);
}

function ReleaseCi({ appId, system, login }: WorkflowProps) {
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
			: {
					cliVersion: __CLI_VERSION__,
					appId,
					channel: name,
					store,
					limit: channel?.disableAutoUpdate ?? "major",
					login,
				};
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
							? "No device yet. Enter the version of your newest store build."
							: `Newest reported version: ${seen}.`
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
						description="Its devices get each release."
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
						2. {system === "gitlab" ? "Add this to" : "Save this as"} <Code>{CI_FILES[system].release}</Code>:
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
