/**
 * The bundle of a release: an uploaded one, found by its version, or a zip that is dropped or
 * chosen here. A chosen zip is checked at once and uploaded only when one releases.
 */
import { Autocomplete, Button, TextInput } from "@mantine/core";
import { type ChangeEvent, useId } from "react";
import { usePage } from "../api";
import { Icon } from "../components/icon";
import { sizeText } from "../components/size";
import { Time } from "../components/time";
import { IconBox, IconUpload } from "../icons";
import type { FileVerdict } from "../upload/bundle-file";
import { ZipVerdict } from "../upload/zip-parts";
import type { BundleRecord } from "./use-release";

const NEWEST = 3;

const channelsText = (channels: readonly string[]) =>
	channels.length === 0 ? "on no channel" : `on ${channels.slice(0, 2).join(", ")}${channels.length > 2 ? "…" : ""}`;

export function BundleField({
	appId,
	seesApp,
	mayUpload,
	version,
	record,
	error,
	isDisabled,
	isFirst,
	onVersion,
	onFile,
}: {
	readonly appId: string;
	/** False: no bundles are suggested. */
	readonly seesApp: boolean;
	readonly mayUpload: boolean;
	readonly version: string;
	/** The bundle of the version, if it is known. */
	readonly record: BundleRecord | undefined;
	readonly error: string | undefined;
	readonly isDisabled: boolean;
	readonly isFirst: boolean;
	readonly onVersion: (version: string) => void;
	readonly onFile: (file: File) => void;
}) {
	const input = useId();
	const bundles = usePage("GET /bundle", { query: { app_id: appId } }, 0, { enabled: seesApp }).data?.items ?? [];
	return (
		<div className="release-bundle">
			<Autocomplete
				label="Bundle"
				placeholder={seesApp ? "Choose or type a version" : "The version of an uploaded bundle"}
				required
				disabled={isDisabled}
				error={error}
				leftSection={<Icon of={IconBox} size="s" />}
				data={bundles.map(({ name }) => name)}
				value={version}
				onChange={onVersion}
				openOnFocus={false}
				limit={50}
				maxDropdownHeight={264}
				comboboxProps={{ keepMounted: false }}
				{...(isFirst ? { "data-autofocus": true } : {})}
				renderOption={({ option }) => {
					const found = bundles.find(({ name }) => name === option.value);
					return (
						<span className="release-option">
							<span className="strong cut">{option.value}</span>
							<span className="muted small cut">{found === undefined ? "" : channelsText(found.channels)}</span>
							<span className="muted small right">
								{found === undefined ? null : <Time value={found.created_at} />}
							</span>
						</span>
					);
				}}
			/>
			{record === undefined || error !== undefined ? null : (
				<span className="muted small">
					{channelsText(record.channels)}
					{record.size === null ? "" : ` · ${sizeText(record.size)}`} · uploaded <Time value={record.created_at} />
				</span>
			)}
			{mayUpload ? (
				<label htmlFor={input} className={version === "" ? "release-drop" : "release-drop is-small"}>
					<Icon of={IconUpload} size={version === "" ? "l" : "s"} />
					<span>
						{version === "" ? (
							<>
								<b className="strong">Drop a zip</b> or <span className="link">choose a file</span>
							</>
						) : (
							<>
								Or drop a zip here, or <span className="link">choose a file</span>
							</>
						)}
					</span>
					<ZipInput id={input} isDisabled={isDisabled} onFile={onFile} />
				</label>
			) : null}
			{version === "" && bundles.length > 0 ? (
				<ul className="plain release-newest" aria-label="Newest bundles">
					{bundles.slice(0, NEWEST).map((bundle) => (
						<li key={bundle.id}>
							<button type="button" disabled={isDisabled} onClick={() => onVersion(bundle.name)}>
								<Icon of={IconBox} size="s" />
								<span className="strong cut">{bundle.name}</span>
								<span className="muted small cut">{channelsText(bundle.channels)}</span>
								<span className="muted small right">
									<Time value={bundle.created_at} />
								</span>
							</button>
						</li>
					))}
				</ul>
			) : null}
		</div>
	);
}

function ZipInput({
	id,
	isDisabled,
	onFile,
}: {
	readonly id: string;
	readonly isDisabled: boolean;
	readonly onFile: (file: File) => void;
}) {
	return (
		<input
			id={id}
			type="file"
			className="sr"
			accept=".zip,application/zip"
			aria-label="Zip of the built web app"
			disabled={isDisabled}
			onChange={(event: ChangeEvent<HTMLInputElement>) => {
				const [file] = event.currentTarget.files ?? [];
				if (file !== undefined) onFile(file);
			}}
		/>
	);
}

export function FileField({
	file,
	verdict,
	version,
	versionError,
	isDisabled,
	isVersionKnown,
	onVersion,
	onFile,
}: {
	readonly file: File;
	readonly verdict: FileVerdict | undefined;
	readonly version: string;
	readonly versionError: string | undefined;
	readonly isDisabled: boolean;
	/** False while the proposal loads, which would mix with what somebody types. */
	readonly isVersionKnown: boolean;
	readonly onVersion: (version: string) => void;
	/** Null: back to the uploaded bundles. */
	readonly onFile: (file: File | null) => void;
}) {
	const input = useId();
	return (
		<>
			<div className="release-bundle">
				<span className="release-label">Bundle</span>
				<div className={verdict?.outcome === "refused" ? "release-file is-bad" : "release-file"}>
					<Icon of={IconUpload} size="s" />
					<span className="strong cut">{file.name}</span>
					<span className="muted small nowrap">{sizeText(file.size)}</span>
					<Button size="xs" variant="subtle" disabled={isDisabled} onClick={() => onFile(null)}>
						Remove
					</Button>
					<label htmlFor={input} className="btn sm">
						Change
						<ZipInput id={input} isDisabled={isDisabled} onFile={onFile} />
					</label>
				</div>
				{verdict?.outcome === "refused" ? (
					<span className="t-bad small" role="alert">
						{verdict.message}
					</span>
				) : null}
				<ZipVerdict file={file} verdict={verdict} />
			</div>
			<TextInput
				label="Version"
				description="Semantic version, e.g. 1.4.0. Must be unique."
				required
				error={versionError}
				disabled={isDisabled || !isVersionKnown}
				value={version}
				onChange={(event) => onVersion(event.currentTarget.value)}
			/>
		</>
	);
}
