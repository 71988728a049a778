/**
 * The bundles of an app: find and sort them, upload one, or delete all unused ones. Filters, order
 * and page are in the address.
 */
import { Button, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { Link, useSearchParams } from "wouter";
import { type AnswerOf, ask, type RequestOf, useChange } from "../../api";
import { Answer, Loading } from "../../components/answer";
import { Badge } from "../../components/badge";
import { useDo } from "../../components/do";
import { type Filters, givenFilters, useFilterForm, useFilters } from "../../components/filters";
import { Confirm } from "../../components/form-dialog";
import { KeptUntil, runningText } from "../../components/kept-until";
import { TextLink } from "../../components/link";
import { notify } from "../../components/notify";
import { Empty, Screen } from "../../components/screen";
import { countOf, sizeText } from "../../components/size";
import { DataTable, Pager, type Sorting, usePageNumber, useSorting } from "../../components/table";
import { Time } from "../../components/time";
import { useBundleDeletionPlan } from "../../dry-runs";
import { IconBox } from "../../icons";
import { appPath, bundlePath, channelPath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppScreenProps } from "../../screen-props";

import "./bundles.css";

const Upload = lazy(() => import("./upload"));

const STATES = [
	["", "All"],
	["live", "Live"],
	["unused", "Unused"],
	["preview", "Previews"],
	["unfinished", "Not finished"],
	["deleted", "Deleted"],
] as const;
const FILTERS = ["search", "state"] as const;
const ORDERS = ["created", "version", "size"] as const;
const isOrder = (by: string): by is (typeof ORDERS)[number] => ORDERS.some((order) => order === by);
const PAGE_SIZE = 50;
type Found = AnswerOf<"GET /bundle?totals=true">["bundles"][number];

export default function Bundles({ appId, orgId }: AppScreenProps) {
	const [page, setPage] = usePageNumber();
	const [filters, setFilters] = useFilters(FILTERS);
	const [sorting, sort] = useSorting("created", ORDERS);
	const query = {
		app_id: appId,
		page: String(page),
		...givenFilters(filters),
		...(isOrder(sorting.by) ? { sort: sorting.by, order: sorting.isDescending ? "desc" : "asc" } : {}),
	};
	const bundles = useQuery<AnswerOf<"GET /bundle?totals=true">, Error>({
		queryKey: ["GET /bundle?totals=true", query],
		queryFn: () => ask("GET /bundle?totals=true", { query } as RequestOf<"GET /bundle?totals=true">),
		placeholderData: keepPreviousData,
	});
	const may = useAppMay(appId, orgId);
	const [dialog, setDialog] = useState<"upload" | "clean" | undefined>();
	const close = () => setDialog(undefined);
	const mayUpload = may("app.upload_bundle") === true;
	useDo("upload", () => setDialog("upload"), mayUpload);
	const isFiltered = filters.search !== "" || filters.state !== "";
	return (
		<Screen
			title="Bundles"
			note="Web builds of your app that channels can serve."
			actions={
				<>
					{mayUpload ? <Button onClick={() => setDialog("upload")}>Upload bundle</Button> : null}
					{may("bundle.delete") === true ? (
						<Button variant="danger" onClick={() => setDialog("clean")}>
							Delete unused bundles
						</Button>
					) : null}
				</>
			}
		>
			<Narrow appId={appId} filters={filters} onFilter={(change) => setFilters({ ...filters, ...change })} />
			<Answer query={bundles} what="bundles">
				{({ bundles: items, total }) =>
					total === 0 && page === 0 ? (
						isFiltered ? (
							<Empty
								title="No matching bundles"
								action={
									<Button variant="default" onClick={() => setFilters({})}>
										Show all bundles
									</Button>
								}
							/>
						) : (
							<Empty title="No bundles yet" icon={IconBox}>
								{mayUpload
									? "Upload a zip of your built web app, here or from your CI: "
									: "Nothing is uploaded yet. To upload from CI, "}
								<TextLink to={appPath(appId, "connect")}>connect your CI</TextLink>.
							</Empty>
						)
					) : (
						<Stack gap="sm">
							<span className="muted" role="status">
								{countOf(total, "bundle")}
							</span>
							<BundleTable appId={appId} bundles={items} state={filters.state} sorting={sorting} onSort={sort} />
							<Pager page={page} hasNext={(page + 1) * PAGE_SIZE < total} onPage={setPage} />
						</Stack>
					)
				}
			</Answer>
			{dialog === "upload" && orgId !== undefined ? (
				<Suspense fallback={<Loading what="the upload" />}>
					<Upload appId={appId} orgId={orgId} onClose={close} />
				</Suspense>
			) : null}
			{dialog === "clean" ? <DeleteUnused appId={appId} onClose={close} /> : null}
		</Screen>
	);
}

type ListFilters = Filters<(typeof FILTERS)[number]>;

const TYPING_MS = 300;

/** The text filters while it is typed. It follows the address, e.g. after Back. */
function Narrow({
	appId,
	filters,
	onFilter,
}: {
	readonly appId: string;
	readonly filters: ListFilters;
	readonly onFilter: (change: Partial<ListFilters>) => void;
}) {
	const [address] = useSearchParams();
	const [form, setForm] = useFilterForm(filters);
	/** Keeps the text and the order. */
	const withState = (state: string) => {
		const after = new URLSearchParams(address);
		after.delete("page");
		if (state === "") after.delete("state");
		else after.set("state", state);
		return `${appPath(appId, "bundles")}?${after}`;
	};
	const apply = useDebouncedCallback((search: string) => onFilter({ search: search.trim() }), TYPING_MS);
	return (
		<div className="row wrap">
			<TextInput
				aria-label="Find bundles"
				placeholder="Filter by version or notes"
				maxLength={128}
				value={form.search}
				onChange={(event) => {
					setForm({ ...form, search: event.currentTarget.value });
					apply(event.currentTarget.value);
				}}
			/>
			<nav className="seg states" aria-label="State">
				{STATES.map(([state, label]) => (
					<Link
						key={state}
						href={withState(state)}
						{...(filters.state === state ? { "aria-current": "true" as const } : {})}
					>
						{label}
					</Link>
				))}
			</nav>
		</div>
	);
}

function BundleTable({
	appId,
	bundles,
	state,
	sorting,
	onSort,
}: {
	readonly appId: string;
	readonly bundles: readonly Found[];
	readonly state: string;
	readonly sorting: Sorting;
	readonly onSort: (by: string) => void;
}) {
	const isGone = state === "deleted";
	const isOpenable = !isGone && state !== "unfinished";
	return (
		<DataTable
			label="Bundles"
			isLinked={isOpenable}
			rows={bundles}
			rowKey={({ id }) => id}
			sorting={sorting}
			onSort={onSort}
			columns={[
				{
					title: "Version",
					sort: "version",
					cell: ({ name, comment }) => (
						<>
							{isOpenable ? <TextLink to={bundlePath(appId, name)}>{name}</TextLink> : name}
							{comment === null ? null : <span className="list-notes">{comment}</span>}
						</>
					),
				},
				...(isOpenable
					? [{ title: "Channels", cell: ({ channels }: Found) => <Channels appId={appId} channels={channels} /> }]
					: []),
				{
					title: "Size",
					sort: "size",
					wideOnly: true,
					cell: ({ size, checksum, storage_provider }) =>
						storage_provider === "external" ? (
							<Badge>External</Badge>
						) : size === null || checksum === null ? (
							"—"
						) : (
							sizeText(size)
						),
				},
				{
					title: "Key",
					wideOnly: true,
					cell: ({ session_key, key_id, signed_by }) => (
						<span className={signed_by === null ? "muted" : undefined}>
							{signed_by === null
								? session_key === null
									? "Not encrypted"
									: `${key_id ?? "Encrypted"}, not verified`
								: signed_by}
						</span>
					),
				},
				{ title: "Created", sort: "created", cell: ({ created_at }) => <Time value={created_at} /> },
				isGone
					? { title: "Deleted", cell: ({ deleted_at }) => (deleted_at === null ? "—" : <Time value={deleted_at} />) }
					: {
							title: "Kept until",
							wideOnly: true,
							cell: ({ expires_at }) => <KeptUntil expiresAt={expires_at} />,
						},
			]}
		/>
	);
}

function Channels({ appId, channels }: { readonly appId: string; readonly channels: readonly string[] }) {
	if (channels.length === 0) return <span className="muted">None</span>;
	return (
		<div className="row wrap">
			{channels.map((channel) => (
				<TextLink key={channel} to={channelPath(appId, channel)}>
					{channel}
				</TextLink>
			))}
		</div>
	);
}

const NAMES_SHOWN = 20;

function KeptForRollback({ count }: { readonly count: number }) {
	if (count === 0) return null;
	return (
		<Text size="sm">
			{countOf(count, "more bundle")} {count === 1 ? "is" : "are"} kept, so that channels can roll back.
		</Text>
	);
}

/** Names the bundles that the dry run lists. */
function DeleteUnused({ appId, onClose }: { readonly appId: string; readonly onClose: () => void }) {
	const plan = useBundleDeletionPlan(appId, { all: "true" });
	const remove = useChange("DELETE /bundle", () => {
		notify("Unused bundles deleted.");
		onClose();
	});
	return (
		<Confirm
			title="Delete all unused bundles?"
			action="Delete unused bundles"
			isPending={remove.isPending}
			isReady={plan.data !== undefined && plan.data.removes.bundles > 0}
			error={remove.error}
			onClose={onClose}
			onConfirm={() => remove.mutate({ query: { app_id: appId, all: "true" } })}
		>
			<Answer query={plan} what="the unused bundles">
				{({ removes, bundles, kept_for_rollback }) =>
					removes.bundles === 0 ? (
						<>
							<Text size="sm">All bundles are in use. There is nothing to delete.</Text>
							<KeptForRollback count={kept_for_rollback} />
						</>
					) : (
						<>
							<Text size="sm">
								{countOf(removes.bundles, "unused bundle")} and {sizeText(removes.bundle_bytes)} of files will be
								deleted. This cannot be undone.
							</Text>
							<Text size="sm">{runningText(removes.devices)}</Text>
							<ul>
								{bundles.slice(0, NAMES_SHOWN).map(({ id, version, devices }) => (
									<li key={id}>
										{version}
										{devices === 0 ? "" : `, on ${countOf(devices, "device")}`}
									</li>
								))}
								{removes.bundles > NAMES_SHOWN ? (
									<li>and {countOf(removes.bundles - NAMES_SHOWN, "more", "more")}</li>
								) : null}
							</ul>
							<KeptForRollback count={kept_for_rollback} />
							{removes.device_overrides === 0 ? null : (
								<Text size="sm">
									This also removes the override of {countOf(removes.device_overrides, "device")}, which will follow
									channels again.
								</Text>
							)}
						</>
					)
				}
			</Answer>
		</Confirm>
	);
}
