/** One bundle: its properties, its channels, a comparison with another bundle, release and deletion. */
import { Button, Group, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useLocation } from "wouter";
import { type AnswerOf, useAsk, useChange, usePage } from "../../api";
import { Answer } from "../../components/answer";
import { KeyValues } from "../../components/card";
import type { Channel } from "../../components/channel-badges";
import { CopyChip } from "../../components/copy-chip";
import { Dialog } from "../../components/dialog";
import { Confirm } from "../../components/form-dialog";
import { KeptUntil, runningText } from "../../components/kept-until";
import { TextLink, WebLink } from "../../components/link";
import { notify } from "../../components/notify";
import { Empty, Screen, Section } from "../../components/screen";
import { countOf, countText, shareText, sizeText } from "../../components/size";
import { DataTable } from "../../components/table";
import { Time, timeText } from "../../components/time";
import { VersionInput } from "../../components/version-input";
import { useBundleDeletionPlan } from "../../dry-runs";
import { appPath, channelPath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppItemProps } from "../../screen-props";
import { Promote } from "../channels/promote";

type BundleRecord = Extract<AnswerOf<"GET /bundle">, readonly unknown[]>[number];

export default function Bundle({ appId, orgId, item }: AppItemProps) {
	const bundles = useAsk("GET /bundle", { query: { app_id: appId, version: item } });
	return (
		<Answer query={bundles} what={`the bundle ${item}`}>
			{([bundle]) =>
				bundle === undefined ? (
					<Screen title={item}>
						<Empty title="Bundle not found">
							It was deleted, or its upload never finished.{" "}
							<TextLink to={appPath(appId, "bundles")}>View all bundles</TextLink>
						</Empty>
					</Screen>
				) : (
					<Details appId={appId} orgId={orgId} bundle={bundle} />
				)
			}
		</Answer>
	);
}

function Details({
	appId,
	orgId,
	bundle,
}: {
	readonly appId: string;
	readonly orgId: string | undefined;
	readonly bundle: BundleRecord;
}) {
	const may = useAppMay(appId, orgId);
	const [isDeleting, setDeleting] = useState(false);
	const [isReleasing, setReleasing] = useState(false);
	return (
		<Screen
			title={bundle.name}
			note={bundle.comment ?? undefined}
			actions={
				<>
					{may("channel.promote_bundle") === true ? (
						<Button onClick={() => setReleasing(true)}>Release bundle</Button>
					) : null}
					{may("bundle.delete") === true ? (
						<Button variant="danger" onClick={() => setDeleting(true)}>
							Delete bundle
						</Button>
					) : null}
				</>
			}
		>
			<KeyValues
				items={[
					["Live on", <Channels key="channels" appId={appId} channels={bundle.channels} />],
					["Size", bundle.size === null ? "—" : sizeText(bundle.size)],
					["Created", <Time key="created" value={bundle.created_at} />],
					["Kept until", <KeptUntil key="kept" expiresAt={bundle.expires_at} />],
					["Minimum store version", bundle.min_update_version ?? "Any"],
					[
						"Encrypted",
						bundle.session_key === null ? "No" : `Yes${bundle.key_id === null ? "" : `, key ${bundle.key_id}`}`,
					],
					["Signed", bundle.signed_by === null ? "Not verified" : `By key ${bundle.signed_by}`],
					["Hosted by", bundle.storage_provider === "external" ? (bundle.external_url ?? "Another server") : "Capstan"],
					[
						"SHA-256",
						bundle.checksum === null ? "Not uploaded yet" : <CopyChip key="checksum" value={bundle.checksum} />,
					],
					...(bundle.link === null ? [] : [["Link", <WebLink key="link" address={bundle.link} />] as const]),
				]}
			/>
			<Compare appId={appId} bundle={bundle} />
			{isReleasing ? (
				<Release appId={appId} orgId={orgId} version={bundle.name} onClose={() => setReleasing(false)} />
			) : null}
			{isDeleting ? <DeleteBundle appId={appId} bundle={bundle} onClose={() => setDeleting(false)} /> : null}
		</Screen>
	);
}

function Channels({ appId, channels }: { readonly appId: string; readonly channels: readonly string[] }) {
	if (channels.length === 0) return "No channel";
	return (
		<Group gap={6}>
			{channels.map((channel) => (
				<TextLink key={channel} to={channelPath(appId, channel)}>
					{channel}
				</TextLink>
			))}
		</Group>
	);
}

/** Asks for the channel, then opens the promote dialog with the bundle filled in. */
function Release({
	appId,
	orgId,
	version,
	onClose,
}: {
	readonly appId: string;
	readonly orgId: string | undefined;
	readonly version: string;
	readonly onClose: () => void;
}) {
	const [channel, setChannel] = useState<Channel | undefined>();
	const channels = usePage("GET /channel", { query: { app_id: appId } }, 0);
	const may = useAppMay(appId, orgId);
	if (channel !== undefined) {
		const maySet = may("channel.update_settings") === true;
		return <Promote appId={appId} channel={channel} version={version} maySet={maySet} onClose={onClose} />;
	}
	return (
		<Dialog onClose={onClose} title={`Release ${version}`} size="lg">
			<Answer query={channels} what="channels">
				{({ items, hasNext }) => (
					<Stack>
						<Text size="sm">
							{items.length === 0
								? "This app has no channels yet. A channel decides which bundle its devices get, so create one first."
								: "Choose the channel whose devices get this bundle. A preview shows the affected devices first."}
						</Text>
						{items.map((each) => (
							<Button
								key={each.id}
								variant="default"
								justify="space-between"
								rightSection={
									<Text span size="xs" c="dimmed">
										{each.version === null ? "No bundle yet" : `Now ${each.version.name}`}
									</Text>
								}
								onClick={() => setChannel(each)}
							>
								{each.name}
							</Button>
						))}
						{hasNext || items.length === 0 ? (
							<TextLink to={appPath(appId, "channels")}>{hasNext ? "View all channels" : "Create channel"}</TextLink>
						) : null}
					</Stack>
				)}
			</Answer>
		</Dialog>
	);
}

function Compare({ appId, bundle }: { readonly appId: string; readonly bundle: BundleRecord }) {
	const [version, setVersion] = useState("");
	const [compared, setCompared] = useState<string | undefined>();
	return (
		<Section title="Compare">
			<form
				onSubmit={(event) => {
					event.preventDefault();
					setCompared(version);
				}}
			>
				<Group align="flex-end">
					<VersionInput appId={appId} label="Compare with" value={version} onChange={setVersion} />
					<Button type="submit" variant="default" disabled={version === ""}>
						Compare
					</Button>
				</Group>
			</form>
			{compared === undefined ? null : <Comparison appId={appId} bundle={bundle} other={compared} />}
		</Section>
	);
}

type Installs = Extract<AnswerOf<"GET /statistics/app/:app_id/installs">, { total: unknown }>;

function Comparison({
	appId,
	bundle,
	other,
}: {
	readonly appId: string;
	readonly bundle: BundleRecord;
	readonly other: string;
}) {
	const others = useAsk("GET /bundle", { query: { app_id: appId, version: other } });
	const installs = useAsk("GET /statistics/app/:app_id/installs", { params: { app_id: appId } });
	return (
		<Answer query={others} what={`the bundle ${other}`}>
			{([second]) =>
				second === undefined ? (
					<Empty title={`Bundle ${other} not found`}>Choose another version.</Empty>
				) : (
					<Answer query={installs} what="installs">
						{(answer) => (
							<Stack gap="xs">
								<ComparisonTable left={bundle} right={second} installs={answer as Installs} />
								<Text size="xs" c="dimmed">
									Installs are from the last 30 days.
								</Text>
							</Stack>
						)}
					</Answer>
				)
			}
		</Answer>
	);
}

function ComparisonTable({
	left,
	right,
	installs,
}: {
	readonly left: BundleRecord;
	readonly right: BundleRecord;
	readonly installs: Installs;
}) {
	const installsOf = ({ name }: BundleRecord) => installs.byBundle.find(({ version }) => version === name);
	const rows: readonly (readonly [string, (bundle: BundleRecord) => string])[] = [
		["Created", ({ created_at }) => timeText(created_at)],
		["Size", ({ size }) => (size === null ? "—" : sizeText(size))],
		["Channels", ({ channels }) => channels.join(", ") || "None"],
		["Minimum store version", ({ min_update_version }) => min_update_version ?? "Any"],
		["Encrypted", ({ session_key }) => (session_key === null ? "No" : "Yes")],
		["Content", ({ checksum }) => (left.checksum === right.checksum ? "Identical" : (checksum?.slice(0, 12) ?? "—"))],
		["Installs", (bundle) => countText(installsOf(bundle)?.install ?? 0)],
		["Failures", (bundle) => countText(installsOf(bundle)?.fail ?? 0)],
		[
			"Success",
			(bundle) => {
				const { install, fail } = installsOf(bundle) ?? { install: 0, fail: 0 };
				return shareText(install, install + fail);
			},
		],
	];
	return (
		<DataTable
			label={`${left.name} compared with ${right.name}`}
			rows={rows}
			rowKey={([name]) => name}
			columns={[
				{ title: "Property", cell: ([name]) => name },
				{ title: left.name, cell: ([, value]) => value(left) },
				// A bundle may be compared with itself.
				{ title: right.name === left.name ? `${right.name} again` : right.name, cell: ([, value]) => value(right) },
			]}
		/>
	);
}

function DeleteBundle({
	appId,
	bundle,
	onClose,
}: {
	readonly appId: string;
	readonly bundle: BundleRecord;
	readonly onClose: () => void;
}) {
	const [, navigate] = useLocation();
	const plan = useBundleDeletionPlan(appId, { version: bundle.name });
	const remove = useChange("DELETE /bundle", () => {
		notify(`Bundle ${bundle.name} deleted.`);
		navigate(appPath(appId, "bundles"));
	});
	return (
		<Confirm
			title={`Delete the bundle ${bundle.name}?`}
			action="Delete bundle"
			isPending={remove.isPending}
			isReady={plan.isSuccess}
			error={remove.error}
			onClose={onClose}
			onConfirm={() => remove.mutate({ query: { app_id: appId, version: bundle.name } })}
		>
			<Answer query={plan} what="the consequences">
				{({ removes, bundles: [going] }) => (
					<>
						<Text size="sm">{runningText(removes.devices)}</Text>
						{going === undefined || going.rollback_target_of.length === 0 ? null : (
							<Text size="sm">
								{going.rollback_target_of.join(", ")} can no longer be rolled back to {bundle.name}.
							</Text>
						)}
						<Text size="sm">This cannot be undone. It deletes:</Text>
						<ul>
							<li>
								the bundle {bundle.name}
								{removes.bundle_bytes === 0 ? "" : ` and its ${sizeText(removes.bundle_bytes)} of files`}
							</li>
							{removes.device_overrides === 0 ? null : (
								<li>the override of {countOf(removes.device_overrides, "device")}, which will follow channels again</li>
							)}
						</ul>
						<Text size="sm">Its statistics are kept.</Text>
					</>
				)}
			</Answer>
		</Confirm>
	);
}
