/**
 * The bundles of an app in rows: find and sort them, upload one, and delete selected ones or all
 * unused ones. Filters, order and page are in the address.
 */
import { Button } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { type AnswerOf, ask, type RequestOf, useAllPages, useAsk } from "../../api";
import { Answer, Loading } from "../../components/answer";
import { Badge } from "../../components/badge";
import type { Channel } from "../../components/channel-badges";
import { useDo } from "../../components/do";
import { type Attempts, FailureRate, failedText, useAttempts } from "../../components/failure-rate";
import { FilterBar, withCounts } from "../../components/filter-bar";
import { givenFilters, useFilters } from "../../components/filters";
import { KeptUntil } from "../../components/kept-until";
import { TextLink } from "../../components/link";
import { Empty, Screen } from "../../components/screen";
import { loadPages, useSelection } from "../../components/selection";
import { countOf, sizeText } from "../../components/size";
import { type Column, DataTable, Pager, usePageNumber, useSorting } from "../../components/table";
import { Time } from "../../components/time";
import { IconBox } from "../../icons";
import { appPath, bundlePath, channelPath } from "../../paths";
import { useAppMay } from "../../permissions";
import type { AppScreenProps } from "../../screen-props";
import { DeleteBundles, DeleteUnused, type ListedBundle, NOUN } from "./delete-bundles";

const Upload = lazy(() => import("./upload"));

const STATES = [
	{ value: "", label: "All" },
	{ value: "live", label: "Live" },
	{ value: "unused", label: "Unused" },
	{ value: "preview", label: "Previews" },
	{ value: "unfinished", label: "Not finished" },
	{ value: "deleted", label: "Deleted" },
];
const isOpenable = (state: string) => state !== "deleted" && state !== "unfinished";
const FILTERS = ["search", "state"] as const;
const ORDERS = ["created", "version", "size"] as const;
const isOrder = (by: string): by is (typeof ORDERS)[number] => ORDERS.some((order) => order === by);
const PAGE_SIZE = 50;

export default function Bundles({ appId, orgId }: AppScreenProps) {
	const [page, setPage] = usePageNumber();
	const [filters, setFilters] = useFilters(FILTERS);
	const [sorting, sort] = useSorting("created", ORDERS);
	const queryOf = (number: number) => ({
		app_id: appId,
		page: String(number),
		...givenFilters(filters),
		...(isOrder(sorting.by) ? { sort: sorting.by, order: sorting.isDescending ? "desc" : "asc" } : {}),
	});
	const query = queryOf(page);
	const ofPage = (number: number) =>
		ask("GET /bundle?totals=true", { query: queryOf(number) } as RequestOf<"GET /bundle?totals=true">);
	const bundles = useQuery<AnswerOf<"GET /bundle?totals=true">, Error>({
		queryKey: ["GET /bundle?totals=true", { query }],
		queryFn: () => ofPage(page),
		placeholderData: keepPreviousData,
	});
	// The first page has the numbers of the states.
	const first = useAsk("GET /bundle?totals=true", { query: queryOf(0) } as RequestOf<"GET /bundle?totals=true">);
	const may = useAppMay(appId, orgId);
	const [dialog, setDialog] = useState<"upload" | "clean" | "selected" | undefined>();
	const selection = useSelection<ListedBundle>(({ id }) => id);
	const figures = useFigures(appId);
	const mayDelete = may("bundle.delete") === true;
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
					{mayDelete ? (
						<Button variant="danger" onClick={() => setDialog("clean")}>
							Delete unused bundles
						</Button>
					) : null}
				</>
			}
		>
			<FilterBar
				list={`bundles ${appId}`}
				filters={filters}
				onFilter={setFilters}
				search={{ name: "search", label: "Find bundles" }}
				chips={{ name: "state", label: "State", choices: withCounts(STATES, first.data?.states ?? {}) }}
			/>
			<Answer query={bundles} what="bundles">
				{({ bundles: items, total, complete }) =>
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
						<div className="sec">
							<span className="muted num" role="status">
								{complete ? "" : "At least "}
								{countOf(total, ...NOUN)}
							</span>
							<DataTable
								label="Bundles"
								isLinked={isOpenable(filters.state)}
								rows={items}
								rowKey={({ id }) => id}
								sorting={sorting}
								onSort={sort}
								pick={
									mayDelete && filters.state !== "deleted"
										? {
												selection,
												nameOf,
												noun: NOUN,
												all: complete
													? {
															total,
															load: () => loadPages(total, async (number) => (await ofPage(number)).bundles),
														}
													: undefined,
												acts: (
													<button type="button" onClick={() => setDialog("selected")}>
														Delete…
													</button>
												),
											}
										: undefined
								}
								columns={columnsOf(appId, filters.state, items, figures)}
								factsOf={(bundle) => {
									const attempts = figures.attemptsOf(bundle);
									return (
										<>
											{bundle.channels.length === 0 ? null : <bdi>{bundle.channels.join(", ")}</bdi>}
											<span>{sizeOf(bundle)}</span>
											{attempts === undefined || attempts.install + attempts.fail === 0 ? null : (
												<span>{failedText(attempts)}</span>
											)}
										</>
									);
								}}
							/>
							<Pager page={page} hasNext={(page + 1) * PAGE_SIZE < total} onPage={setPage} />
						</div>
					)
				}
			</Answer>
			{dialog === "upload" && orgId !== undefined ? (
				<Suspense fallback={<Loading what="the upload" />}>
					<Upload appId={appId} orgId={orgId} onClose={close} />
				</Suspense>
			) : null}
			{dialog === "selected" ? <DeleteBundles appId={appId} selection={selection} onClose={close} /> : null}
			{dialog === "clean" ? <DeleteUnused appId={appId} onClose={close} /> : null}
		</Screen>
	);
}

const nameOf = ({ name }: ListedBundle) => name;
const sizeOf = ({ size, checksum, storage_provider }: ListedBundle) =>
	storage_provider === "external" ? "External" : size === null || checksum === null ? "—" : sizeText(size);
const uploaderOf = ({ uploaded_by: { type, name } }: ListedBundle) =>
	name ?? (type === "user" ? "A person" : "An API key");

interface Figures {
	/** Undefined until they are known. */
	readonly attemptsOf: (bundle: ListedBundle) => Attempts | undefined;
	/** The serving channel with the lowest limit of failures. */
	readonly channelOf: (bundle: ListedBundle) => Channel | undefined;
}

function useFigures(appId: string): Figures {
	const attempts = useAttempts(appId);
	const channels = useAllPages("GET /channel", { query: { app_id: appId, limit: "1000" } });
	const byLimit = (channels.data ?? []).toSorted(
		(one, other) => one.autoPauseFailureRateBps - other.autoPauseFailureRateBps,
	);
	return {
		attemptsOf: ({ name }) => attempts(({ byBundle }) => byBundle.find(({ version }) => version === name)),
		channelOf: (bundle) => byLimit.find(({ name }) => bundle.channels.includes(name)),
	};
}

function columnsOf(
	appId: string,
	state: string,
	bundles: readonly ListedBundle[],
	{ attemptsOf, channelOf }: Figures,
): readonly Column<ListedBundle>[] {
	const isGone = state === "deleted";
	const isThere = isOpenable(state);
	const hasKeys = bundles.some(({ session_key, signed_by }) => session_key !== null || signed_by !== null);
	return [
		{
			title: "Version",
			sort: "version",
			cell: ({ name, comment, expires_at }) => (
				<span className="named">
					{isThere ? (
						<TextLink to={bundlePath(appId, name)}>
							<bdi title={name}>{name}</bdi>
						</TextLink>
					) : (
						<bdi className="cut" title={name}>
							{name}
						</bdi>
					)}
					{expires_at === null || isGone ? null : (
						<Badge>
							Until <KeptUntil expiresAt={expires_at} />
						</Badge>
					)}
					{comment === null ? null : (
						<span className="muted small cut" title={comment}>
							<bdi>{comment}</bdi>
						</span>
					)}
				</span>
			),
		},
		...(isThere
			? [
					{
						title: "Live on",
						wideOnly: true as const,
						width: 170,
						cell: ({ channels }: ListedBundle) => <Channels appId={appId} channels={channels} />,
					},
				]
			: []),
		{
			title: "Size",
			sort: "size",
			wideOnly: true,
			alignEnd: true,
			width: 88,
			cell: sizeOf,
		},
		{
			title: "Uploaded by",
			wideOnly: true,
			width: 150,
			cell: (bundle) => (
				<div className="cut" title={uploaderOf(bundle)}>
					<bdi>{uploaderOf(bundle)}</bdi>
				</div>
			),
		},
		...(hasKeys
			? [
					{
						title: "Key",
						wideOnly: true as const,
						width: 110,
						cell: (bundle: ListedBundle) => <Key bundle={bundle} />,
					},
				]
			: []),
		...(isThere
			? [
					{
						title: "Failed installs",
						wideOnly: true as const,
						alignEnd: true as const,
						width: 132,
						cell: (bundle: ListedBundle) => {
							const attempts = attemptsOf(bundle);
							if (attempts === undefined) return <span className="muted">—</span>;
							return <FailureRate attempts={attempts} channel={channelOf(bundle)} />;
						},
					},
				]
			: []),
		{ title: "Created", sort: "created", width: 116, cell: ({ created_at }) => <Time value={created_at} /> },
		...(isGone
			? [
					{
						title: "Deleted",
						wideOnly: true as const,
						width: 116,
						cell: ({ deleted_at }: ListedBundle) => (deleted_at === null ? "—" : <Time value={deleted_at} />),
					},
				]
			: []),
	];
}

function Key({ bundle: { session_key, key_id, signed_by } }: { readonly bundle: ListedBundle }) {
	const text = signed_by ?? (session_key === null ? "Not encrypted" : `${key_id ?? "Encrypted"}, not verified`);
	return (
		<div className={signed_by === null ? "cut muted" : "cut"} title={text}>
			{text}
		</div>
	);
}

function Channels({ appId, channels }: { readonly appId: string; readonly channels: readonly string[] }) {
	const [first, ...others] = channels;
	if (first === undefined) return <span className="muted">—</span>;
	return (
		<span className="named" title={channels.join(", ")}>
			<TextLink to={channelPath(appId, first)}>
				<bdi>{first}</bdi>
			</TextLink>
			{others.length === 0 ? null : <Badge>{`+${others.length}`}</Badge>}
		</span>
	);
}
