/**
 * Two bundles side by side: failed installs with their interval, devices, sizes, and the files that
 * were added, changed or removed. The act begins with the bundle before; live ones are one click
 * away. A chosen bundle is in the address.
 */
import { Button } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { useSearchParams } from "wouter";
import { type AnswerOf, useAsk, usePage } from "../../api";
import { Answer } from "../../components/answer";
import { Badge } from "../../components/badge";
import { Note } from "../../components/card";
import { timeText } from "../../components/dates";
import { useDo } from "../../components/do";
import { Empty, Section } from "../../components/screen";
import { countOf, countText, sizeText } from "../../components/size";
import { DataTable } from "../../components/table";
import { VersionInput } from "../../components/version-input";
import { failedText } from "./bundle-texts";

export type BundleRecord = Extract<AnswerOf<"GET /bundle">, readonly unknown[]>[number];
type Installs = Extract<AnswerOf<"GET /statistics/app/:app_id/installs">, { total: unknown }>;
type Usage = Extract<AnswerOf<"GET /statistics/app/:app_id/bundle_usage">, { datasets: unknown }>;
type Difference = AnswerOf<"GET /bundle/difference">;

const NEAREST = 3;

export function Compare({ appId, bundle }: { readonly appId: string; readonly bundle: BundleRecord }) {
	const [address, setAddress] = useSearchParams();
	const [version, setVersion] = useState("");
	const form = useRef<HTMLFormElement>(null);
	const [asked, setAsked] = useState(0);
	const isAsked = asked > 0;
	useDo("compare", () => setAsked((before) => before + 1));
	useEffect(() => {
		if (asked > 0) form.current?.querySelector("input")?.focus({ preventScroll: true });
	}, [asked]);
	const suggested = useSuggested(appId, bundle);
	const first = suggested[0]?.name;
	const chosen = address.get("with") ?? "";
	const compared = chosen === "" && isAsked ? (first ?? "") : chosen;
	// The parts above load as well, and move the form.
	const isShown = isAsked && compared !== "";
	useEffect(() => {
		if (isShown) form.current?.scrollIntoView({ block: "start" });
	}, [isShown]);
	const compare = (other: string) =>
		setAddress((before) => {
			const after = new URLSearchParams(before);
			after.set("with", other);
			return after;
		});
	return (
		<Section title="Compare">
			<form
				ref={form}
				className="row wrap compare-form"
				onSubmit={(event) => {
					event.preventDefault();
					compare(version);
				}}
			>
				<VersionInput
					appId={appId}
					label="Compare with"
					value={version}
					onChange={setVersion}
					opensOnFocus={!isAsked}
				/>
				<Button type="submit" variant="default" disabled={version === ""} className="compare-button">
					Compare
				</Button>
				{suggested
					.filter(({ name }) => name !== compared)
					.map(({ name, channels }) => (
						<Button key={name} variant="default" size="xs" onClick={() => compare(name)} className="compare-button">
							{channels.length === 0 ? `With ${name}` : `With ${name}, live on ${channels[0]}`}
						</Button>
					))}
			</form>
			{compared === "" ? null : <Comparison appId={appId} bundle={bundle} other={compared} />}
		</Section>
	);
}

/** A version with a suffix is a preview's or a release candidate's. */
const hasSuffix = ({ name }: BundleRecord) => (name.split("+")[0] ?? "").includes("-");

/** The one just before this bundle and of its kind, live bundles, and earlier ones. */
function useSuggested(appId: string, bundle: BundleRecord): readonly BundleRecord[] {
	const bundles = usePage("GET /bundle", { query: { app_id: appId } }, 0);
	const others = (bundles.data?.items ?? []).filter(({ name }) => name !== bundle.name);
	const live = others.filter(({ channels }) => channels.length > 0);
	const earlier = others.filter(({ created_at }) => created_at < bundle.created_at);
	const before = earlier.find((other) => hasSuffix(other) === hasSuffix(bundle));
	return [...new Set([...(before === undefined ? [] : [before]), ...live, ...earlier])].slice(0, NEAREST);
}

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
	const usage = useAsk("GET /statistics/app/:app_id/bundle_usage", {
		params: { app_id: appId },
		query: { strict: "true" },
	});
	const difference = useAsk("GET /bundle/difference", {
		query: { app_id: appId, version: bundle.name, base: other },
	});
	return (
		<Answer query={others} what={`the bundle ${other}`}>
			{([second]) =>
				second === undefined ? (
					<Empty title={`Bundle ${other} not found`}>Choose another version.</Empty>
				) : (
					<>
						<Answer query={installs} what="installs">
							{(answer) => (
								<ComparisonTable
									left={bundle}
									right={second}
									installs={answer as Installs}
									usage={usage.data as Usage | undefined}
								/>
							)}
						</Answer>
						<Answer query={difference} what="the changed files">
							{(answer) => <Files answer={answer} />}
						</Answer>
					</>
				)
			}
		</Answer>
	);
}

function ComparisonTable({
	left,
	right,
	installs,
	usage,
}: {
	readonly left: BundleRecord;
	readonly right: BundleRecord;
	readonly installs: Installs;
	readonly usage: Usage | undefined;
}) {
	const installsOf = ({ name }: BundleRecord) =>
		installs.byBundle.find(({ version }) => version === name) ?? { install: 0, fail: 0, p95_ms: null };
	const devicesOf = ({ name }: BundleRecord) =>
		usage?.datasets.find(({ label }) => label === name)?.metaCounts.at(-1) ?? 0;
	const rows: readonly (readonly [string, (bundle: BundleRecord) => string])[] = [
		["Failed installs", (bundle) => failedText(installsOf(bundle).install, installsOf(bundle).fail)],
		["Installs", (bundle) => countText(installsOf(bundle).install)],
		["Devices today", (bundle) => countText(devicesOf(bundle))],
		["Size", ({ size }) => (size === null ? "—" : sizeText(size))],
		["Created", ({ created_at }) => timeText(created_at)],
		["Live on", ({ channels }) => channels.join(", ") || "No channel"],
		["Minimum store version", ({ min_update_version }) => min_update_version ?? "Any"],
		["Encrypted", ({ session_key }) => (session_key === null ? "No" : "Yes")],
	];
	return (
		<>
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
			<p className="muted">
				Installs and failures are those of the last 30 days. With 95 % confidence the true rate lies between the two
				bounds.
			</p>
		</>
	);
}

const REASONS: Readonly<Record<NonNullable<Difference["not_compared"]>, string>> = {
	forms_differ:
		"One of the bundles has a manifest or a zip that the other one does not have, so files are not compared.",
	zip: "A zip cannot be read here, because it is encrypted or on another server.",
};

const CHANGES = {
	added: { word: "Added", tone: "ok" },
	changed: { word: "Changed", tone: "warn" },
	removed: { word: "Removed", tone: "bad" },
} as const;

function Files({ answer: { version, base, difference, not_compared } }: { readonly answer: Difference }) {
	if (difference === null) {
		return <Note>{not_compared === null ? "The files cannot be compared." : REASONS[not_compared]}</Note>;
	}
	const { added, changed, removed, files } = difference;
	const total = added + changed + removed;
	if (total === 0) return <Note tone="ok">{`${version} and ${base} have the same files.`}</Note>;
	return (
		<>
			<p className="strong">{`From ${base} to ${version}: ${added} added, ${changed} changed, ${removed} removed.`}</p>
			<DataTable
				label="Files that differ"
				rows={files}
				rowKey={({ file }) => file}
				columns={[
					{ title: "File", cell: ({ file }) => file },
					{ title: "Change", cell: ({ change }) => <Badge tone={CHANGES[change].tone}>{CHANGES[change].word}</Badge> },
				]}
			/>
			{total > files.length ? <p className="muted">{countOf(total - files.length, "more file")} not listed.</p> : null}
		</>
	);
}
