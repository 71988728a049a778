/**
 * Activity of an organization or of one app: who changed what, with filters in the address, and a
 * download of all that match.
 */
import { Button, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { usePage } from "../../api";
import { Answer } from "../../components/answer";
import { ChangeList } from "../../components/changes";
import { FilterBar } from "../../components/filter-bar";
import { type Filters, givenFilters, isFiltered, useFilters } from "../../components/filters";
import { Empty, Screen } from "../../components/screen";
import { Pager, usePageNumber } from "../../components/table";
import type { AppScreenProps, OrganizationScreenProps } from "../../screen-props";

const NAMES = ["search", "action", "actor", "target", "from", "to"] as const;
/** Kinds of actions, by the first part of their names. */
const KINDS = [
	{ value: "", label: "All" },
	{ value: "channel", label: "Channels" },
	{ value: "bundle", label: "Bundles" },
	{ value: "device", label: "Devices" },
	{ value: "app", label: "App" },
	{ value: "api_key", label: "Keys" },
	{ value: "member", label: "Members" },
	{ value: "publisher", label: "Publishers" },
	{ value: "webhook", label: "Webhooks" },
];
const RARE = [
	{ name: "actor", label: "Person or key" },
	{ name: "target", label: "Channel, bundle or key" },
	{ name: "from", label: "From (UTC)", type: "date" },
	{ name: "to", label: "Until (UTC)", type: "date" },
] as const;
type LogFilters = Filters<(typeof NAMES)[number]>;

type LogOf = { readonly orgId: string } | { readonly appId: string };

function useLog(of: LogOf, filters: LogFilters, page: number) {
	const query = givenFilters(filters);
	const isOfApp = "appId" in of;
	const ofApp = usePage("GET /app/:app_id/audit", { params: { app_id: isOfApp ? of.appId : "none" }, query }, page, {
		enabled: isOfApp,
	});
	const ofOrganization = usePage(
		"GET /organization/audit",
		{ query: { orgId: isOfApp ? "" : of.orgId, ...query } },
		page,
		{ enabled: !isOfApp },
	);
	return isOfApp ? ofApp : ofOrganization;
}

function exportAddress(of: LogOf, filters: LogFilters): string {
	const query = new URLSearchParams({ ...givenFilters(filters), format: "ndjson" });
	if ("appId" in of) return `/app/${encodeURIComponent(of.appId)}/audit?${query}`;
	query.set("orgId", of.orgId);
	return `/organization/audit?${query}`;
}

export function OrganizationChanges({ orgId }: OrganizationScreenProps) {
	return <AuditLog of={{ orgId }} title="Activity" note="Every change in the organization, newest first." />;
}

export function AppChanges({ appId }: AppScreenProps) {
	return <AuditLog of={{ appId }} title="Activity" note="Every change of the app, newest first." />;
}

function AuditLog({ of, title, note }: { readonly of: LogOf; readonly title: string; readonly note: ReactNode }) {
	const [page, setPage] = usePageNumber();
	const [filters, setFilters] = useFilters(NAMES);
	const log = useLog(of, filters, page);
	return (
		<Screen
			title={title}
			note={note}
			actions={
				<Button component="a" variant="default" href={exportAddress(of, filters)} download="audit.ndjson">
					Download NDJSON
				</Button>
			}
		>
			<FilterBar
				list={`activity ${"appId" in of ? of.appId : of.orgId}`}
				filters={filters}
				onFilter={setFilters}
				search={{ name: "search", label: "Filter changes" }}
				chips={{ name: "action", label: "Actions", choices: KINDS }}
				more={RARE}
			/>
			<Answer query={log} what="changes">
				{({ items, hasNext }) =>
					items.length === 0 && page === 0 ? (
						<Empty title={isFiltered(filters) ? "No matching changes" : "No changes yet"}>
							{isFiltered(filters) ? "Change or clear the filters." : "Changes appear here with their author."}
						</Empty>
					) : (
						<Stack gap="sm">
							<ChangeList changes={items} showsApp={!("appId" in of)} />
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
						</Stack>
					)
				}
			</Answer>
		</Screen>
	);
}
