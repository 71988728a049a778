/**
 * Figures of an app or of an organization by day: the figures are the tabs of one chart. Range,
 * figure, comparison, split and hidden series are in the address. The numbers are those that the
 * API answers.
 */
import { Switch, TextInput } from "@mantine/core";
import { lazy, Suspense, useMemo, useState } from "react";
import { useLocation, useSearchParams } from "wouter";
import type { OpenTarget } from "../../charts/chart-model";
import { lastMarker } from "../../charts/chart-model";
import { daysText } from "../../charts/time-axis";
import { isBundle } from "../../charts/version-text";
import { Answer, Loading } from "../../components/answer";
import { FailedUpdates } from "../../components/failed-updates";
import { Screen } from "../../components/screen";
import { countOf } from "../../components/size";
import { utcDay } from "../../components/time";
import { bundlePath } from "../../paths";
import type { AppScreenProps, OrganizationScreenProps } from "../../screen-props";
import { ByBundle } from "./by-bundle";
import {
	type BundleUsage,
	bandwidthMetric,
	bundlesMetric,
	countMetric,
	devicesMetric,
	failedMetric,
	hasNothing,
	lostEvents,
	type MetricView,
	type Period,
	storageMetric,
	timeMetric,
} from "./metrics";
import { type AppFigures, useAppFigures, useOrganizationFigures, useReleases } from "./queries";
import { lengthText, PRESETS, type Range, rangeOf, withView } from "./range";
import "./statistics.css";

const Chart = lazy(() => import("../../charts/chart"));

export function AppStatistics({ appId }: AppScreenProps) {
	const [address] = useSearchParams();
	const today = utcDay(0);
	const range = useMemo(() => rangeOf(address, today), [address, today]);
	const figures = useAppFigures(appId, range);
	const isShares = address.get("view") !== "devices";
	return (
		<Statistics range={range} label={appId}>
			<Answer query={figures} what="statistics">
				{(loaded) => <AppView appId={appId} range={range} figures={loaded} isShares={isShares} />}
			</Answer>
		</Statistics>
	);
}

function AppView({
	appId,
	range,
	figures,
	isShares,
}: {
	readonly appId: string;
	readonly range: Range;
	readonly figures: AppFigures;
	readonly isShares: boolean;
}) {
	const [, navigate] = useLocation();
	const { releases, live, rollingOut } = useReleases(appId);
	const { now, before, installs, usage } = figures;
	const views = useMemo(
		() => [
			devicesMetric(now, before),
			countMetric("install", "Installs", now, before),
			failedMetric(now, before),
			timeMetric(now, installs),
			bundlesMetric(now, usage, { isShares, live, rollingOut }),
			countMetric("get", "Downloads", now, before),
			bandwidthMetric(now, before),
			storageMetric(now),
		],
		[now, before, installs, usage, isShares, live, rollingOut],
	);
	const versionAt = ({ day, series }: OpenTarget) =>
		series !== undefined && isBundleOf(usage, series) ? series : lastMarker(releases, day)?.label;
	return (
		<>
			<MetricCard
				views={views}
				range={range}
				before={before}
				now={now}
				markers={releases}
				fileName={appId}
				openText={(target) => {
					const version = versionAt(target);
					return version === undefined ? undefined : `open ${version}`;
				}}
				onOpen={(target) => {
					const version = versionAt(target);
					if (version !== undefined) navigate(bundlePath(appId, version));
				}}
			/>
			<ByBundle appId={appId} usage={usage} installs={installs} live={live} rollingOut={rollingOut} range={range} />
			<FailedUpdates appId={appId} title="Failed updates" query={{ from: range.from, to: range.to }} />
		</>
	);
}

const isBundleOf = ({ datasets }: BundleUsage, name: string) =>
	datasets.some(({ label }) => label === name && isBundle(label));

export function OrganizationStatistics({ orgId }: OrganizationScreenProps) {
	const [address] = useSearchParams();
	const today = utcDay(0);
	const range = useMemo(() => rangeOf(address, today), [address, today]);
	const isByApp = address.get("split") === "app";
	const figures = useOrganizationFigures(orgId, range, isByApp);
	return (
		<Statistics range={range} label="organization">
			<Answer query={figures} what="statistics">
				{({ now, before }) => (
					<MetricCard
						views={[
							devicesMetric(now, before),
							countMetric("install", "Installs", now, before),
							failedMetric(now, before),
							countMetric("get", "Downloads", now, before),
							bandwidthMetric(now, before),
							storageMetric(now),
						]}
						range={range}
						now={now}
						before={before}
						markers={[]}
						fileName="organization"
						canSplit
					/>
				)}
			</Answer>
		</Statistics>
	);
}

/** The title with the choice of days. */
function Statistics({
	range,
	label,
	children,
}: {
	readonly range: Range;
	readonly label: string;
	readonly children: React.ReactNode;
}) {
	const [, setAddress] = useSearchParams();
	const [isOpen, setOpen] = useState(false);
	return (
		<Screen
			title="Statistics"
			actions={
				<>
					<fieldset className="seg statistics-range" aria-label="Range">
						{PRESETS.map(({ days, label: short, name }) => (
							<button
								key={days}
								type="button"
								title={name}
								aria-pressed={range.preset === days}
								onClick={() => setAddress((address) => withView(address, { days: String(days) }))}
							>
								{short}
							</button>
						))}
					</fieldset>
					<button type="button" className="btn" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
						{daysText([range.from, range.to])}
					</button>
				</>
			}
		>
			{isOpen ? <OwnRange key={`${label} ${range.from} ${range.to}`} range={range} /> : null}
			{children}
		</Screen>
	);
}

function OwnRange({ range }: { readonly range: Range }) {
	const [, setAddress] = useSearchParams();
	const [from, setFrom] = useState(range.from);
	const [to, setTo] = useState(range.to);
	const isRange = from !== "" && to !== "" && from <= to && to <= utcDay(0);
	return (
		<form
			className="card pad row wrap statistics-own"
			onSubmit={(event) => {
				event.preventDefault();
				if (isRange) setAddress((address) => withView(address, { from, to }));
			}}
		>
			<TextInput type="date" label="From" value={from} max={to} onChange={(event) => setFrom(event.target.value)} />
			<TextInput
				type="date"
				label="To"
				value={to}
				max={utcDay(0)}
				onChange={(event) => setTo(event.target.value)}
				error={isRange ? undefined : "Choose days that are not after today, the first one first."}
			/>
			<button type="submit" className="btn" disabled={!isRange}>
				Show days
			</button>
		</form>
	);
}

function MetricCard({
	views,
	range,
	now,
	before,
	markers,
	fileName,
	canSplit = false,
	onOpen,
	openText,
}: {
	readonly views: readonly MetricView[];
	readonly range: Range;
	readonly now: Period;
	readonly before: Period;
	readonly markers: readonly { readonly day: string; readonly label: string }[];
	readonly fileName: string;
	/** By app. */
	readonly canSplit?: boolean;
	readonly onOpen?: (target: OpenTarget) => void;
	readonly openText?: (target: OpenTarget) => string | undefined;
}) {
	const [address, setAddress] = useSearchParams();
	const view = views.find(({ name }) => name === address.get("figure")) ?? views[0];
	const hiddenText = address.get("hide") ?? "";
	const hidden = useMemo(() => (hiddenText === "" ? [] : hiddenText.split(",")), [hiddenText]);
	const isSplit = view?.chart.series.length !== 1;
	const isCompared = address.get("compare") === "before" && view?.before !== undefined && !isSplit;
	const data = useMemo(() => {
		if (view === undefined) return undefined;
		const comparison =
			isCompared && view.before !== undefined
				? { comparison: { label: `${lengthText(range)} before`, days: before.days, values: view.before } }
				: {};
		return { ...view.chart, markers, ...comparison };
	}, [view, markers, isCompared, range, before]);
	if (view === undefined || data === undefined) return null;
	const set = (change: Readonly<Record<string, string | undefined>>) =>
		setAddress((current) => withView(current, change), { replace: true });
	const lost = lostEvents(now);
	const isNothing = hasNothing(view);
	return (
		<div className="card">
			<div className={`stats statistics-tabs of-${views.length}`} role="tablist" aria-label="Figures">
				{views.map(({ name, label, value, note, isBad = false }) => (
					<button
						key={name}
						type="button"
						role="tab"
						className="stat"
						id={`figure-${name}`}
						aria-selected={name === view.name}
						aria-controls="figure"
						tabIndex={name === view.name ? 0 : -1}
						onClick={() => set({ figure: name, hide: undefined })}
						onKeyDown={(event) => {
							const next = tabAfterKey(event.key, views, name);
							if (next === undefined) return;
							event.preventDefault();
							set({ figure: next, hide: undefined });
							document.getElementById(`figure-${next}`)?.focus();
						}}
					>
						<span className="l">{label}</span>
						<span className="v">{value}</span>
						<span className={isBad ? "s t-bad" : "s"}>{note}</span>
					</button>
				))}
			</div>
			<div className="pad sec" role="tabpanel" id="figure" aria-labelledby={`figure-${view.name}`}>
				{isNothing ? null : <p className="statistics-answer">{view.sentence}</p>}
				<Suspense fallback={<Loading what="the chart" />}>
					<Chart
						data={isNothing ? { ...data, series: [] } : data}
						emptyText={view.emptyText}
						fileName={`${fileName}-${view.name}-${range.from}-${range.to}`.replaceAll(/[^\w.-]/g, "_")}
						heightPx={280}
						hidden={hidden}
						onHide={(names) => set({ hide: names.join(",") })}
						{...(onOpen === undefined || openText === undefined ? {} : { onOpen, openText })}
						note={lost === 0 ? "All days are in UTC." : `All days are in UTC. ${countOf(lost, "event")} were lost.`}
						controls={
							<div className="row wrap">
								{view.name === "bundles" ? (
									<Choice
										label="Values"
										value={address.get("view") === "devices" ? "devices" : "shares"}
										choices={[
											["shares", "Share"],
											["devices", "Devices"],
										]}
										onChange={(value) => set({ view: value === "shares" ? undefined : value })}
									/>
								) : null}
								{canSplit ? (
									<Choice
										label="Split by"
										value={address.get("split") === "app" ? "app" : "none"}
										choices={[
											["none", "All apps"],
											["app", "By app"],
										]}
										onChange={(value) => set({ split: value === "none" ? undefined : value, hide: undefined })}
									/>
								) : null}
								{view.before === undefined || isSplit ? null : (
									<Switch
										size="xs"
										label="Compare"
										checked={isCompared}
										onChange={(event) => set({ compare: event.currentTarget.checked ? "before" : undefined })}
									/>
								)}
							</div>
						}
					/>
				</Suspense>
			</div>
		</div>
	);
}

/** Arrow keys, Home and End move between tabs. */
function tabAfterKey(key: string, views: readonly MetricView[], name: string): string | undefined {
	const at = views.findIndex((view) => view.name === name);
	const moves: Readonly<Record<string, number>> = {
		ArrowLeft: at - 1,
		ArrowRight: at + 1,
		Home: 0,
		End: views.length - 1,
	};
	const next = moves[key];
	return next === undefined ? undefined : views.at(next % views.length)?.name;
}

function Choice({
	label,
	value,
	choices,
	onChange,
}: {
	readonly label: string;
	readonly value: string;
	readonly choices: readonly (readonly [value: string, label: string])[];
	readonly onChange: (value: string) => void;
}) {
	return (
		<fieldset className="seg statistics-range" aria-label={label}>
			{choices.map(([each, text]) => (
				<button key={each} type="button" aria-pressed={each === value} onClick={() => onChange(each)}>
					{text}
				</button>
			))}
		</fieldset>
	);
}
