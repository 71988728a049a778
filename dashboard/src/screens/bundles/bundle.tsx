/**
 * One bundle: its figures, notes, channels, native packages and files, a comparison with another
 * bundle, release, download and deletion.
 */
import { Button, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { ask, useAsk, useChange, usePage } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { Badge } from "../../components/badge";
import { KeyValues } from "../../components/card";
import { CopyChip } from "../../components/copy-chip";
import { useDo } from "../../components/do";
import { FailedUpdates } from "../../components/failed-updates";
import { Confirm } from "../../components/form-dialog";
import { Icon } from "../../components/icon";
import { KeptUntil, runningText } from "../../components/kept-until";
import { ButtonLink, TextLink } from "../../components/link";
import { Found, isMissing, Missing } from "../../components/missing";
import { notify } from "../../components/notify";
import { Screen } from "../../components/screen";
import { countOf, sizeText } from "../../components/size";
import { Time } from "../../components/time";
import { useBundleDeletionPlan } from "../../dry-runs";
import { IconDownload, IconGitCompare, IconRocket } from "../../icons";
import { appPath, bundlePath, channelPath } from "../../paths";
import { useAppMay } from "../../permissions";
import { ReleaseDialog } from "../../release-dialog";
import type { AppItemProps } from "../../screen-props";
import { BundleFigures } from "./bundle-figures";
import { BundleHealth } from "./bundle-health";
import { BundleLive } from "./bundle-live";
import { BundleNotes } from "./bundle-notes";
import { BundlePackages } from "./bundle-packages";
import { type BundleRecord, Compare } from "./compare";
import { FileList } from "./file-list";
import "./bundles.css";

export default function Bundle({ appId, orgId, item }: AppItemProps) {
	const bundles = useAsk("GET /bundle", { query: { app_id: appId, version: item } });
	const isNone = isMissing(bundles.error) || bundles.data?.length === 0;
	const others = usePage("GET /bundle", { query: { app_id: appId } }, 0, { enabled: isNone });
	const missing = {
		kind: "bundle",
		name: item,
		because: "It was deleted, its upload never finished, or the app never had it.",
		others: others.data?.items.map(({ name }) => ({ name, to: bundlePath(appId, name) })),
		list: { to: appPath(appId, "bundles"), label: "All bundles" },
	};
	return (
		<Found query={bundles} {...missing}>
			{([bundle]) =>
				bundle === undefined ? <Missing {...missing} /> : <Details appId={appId} orgId={orgId} bundle={bundle} />
			}
		</Found>
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
	const mayRelease = may("channel.promote_bundle") === true;
	useDo("release", () => setReleasing(true), mayRelease);
	const download = useDownload(appId, bundle.name);
	return (
		<Screen
			title={bundle.name}
			note={<Channels appId={appId} channels={bundle.channels} />}
			actions={
				<>
					{mayRelease ? (
						<Button leftSection={<Icon of={IconRocket} />} data-release onClick={() => setReleasing(true)}>
							Release
						</Button>
					) : null}
					<Button
						variant="default"
						loading={download.isPending}
						leftSection={<Icon of={IconDownload} />}
						onClick={() => download.mutate()}
					>
						Download
					</Button>
					<ButtonLink
						variant="default"
						to={`${bundlePath(appId, bundle.name)}?do=compare`}
						leftSection={<Icon of={IconGitCompare} />}
					>
						Compare
					</ButtonLink>
					{may("bundle.delete") === true ? (
						<Button variant="danger" onClick={() => setDeleting(true)}>
							Delete bundle
						</Button>
					) : null}
				</>
			}
		>
			{download.error === null ? null : <Problem error={download.error} />}
			<BundleFigures appId={appId} version={bundle.name} />
			<BundleNotes appId={appId} bundle={bundle} mayEdit={may("app.upload_bundle") === true} />
			<KeyValues
				items={[
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
				]}
			/>
			<BundleLive appId={appId} version={bundle.name} />
			<BundleHealth appId={appId} version={bundle.name} />
			<FailedUpdates appId={appId} title="Failed updates, last 30 days" query={{ version: bundle.name }} />
			<BundlePackages appId={appId} version={bundle.name} />
			<FileList appId={appId} version={bundle.name} />
			<Compare appId={appId} bundle={bundle} />
			{isReleasing ? (
				<ReleaseDialog appId={appId} orgId={orgId} version={bundle.name} onClose={() => setReleasing(false)} />
			) : null}
			{isDeleting ? <DeleteBundle appId={appId} bundle={bundle} onClose={() => setDeleting(false)} /> : null}
		</Screen>
	);
}

/**
 * Saves the zip. The link that the server signs needs no key and opens nothing but files of this
 * app.
 */
function useDownload(appId: string, version: string) {
	return useMutation<void, Error>({
		mutationFn: async () => {
			const { url } = await ask("GET /bundle/download", { query: { app_id: appId, version } });
			const link = document.createElement("a");
			link.href = url;
			link.download = `${appId}-${version}.zip`;
			link.click();
		},
	});
}

function Channels({ appId, channels }: { readonly appId: string; readonly channels: readonly string[] }) {
	if (channels.length === 0) return <Badge>Not live</Badge>;
	return (
		<div className="row wrap">
			<Badge tone="ok">Live</Badge>
			{channels.map((channel) => (
				<TextLink key={channel} to={channelPath(appId, channel)}>
					{channel}
				</TextLink>
			))}
		</div>
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
