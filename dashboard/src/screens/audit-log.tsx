/** Who changed what: entries with filters and pages, each with what it says was changed, and all of it as a file. */
import { Button, Code, Group, Stack, Text, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { usePage } from "../api";
import { Answer } from "../parts/answer";
import { changeText, Differences } from "../parts/changes";
import { Empty, Screen } from "../parts/screen";
import { DataTable, Pager, usePageNumber } from "../parts/table";
import { timeText } from "../parts/time";

const FIELDS = [
	["actor", "Who", "text"],
	["action", "Action", "text"],
	["target", "What", "text"],
	["from", "From (UTC)", "date"],
	["to", "Until (UTC)", "date"],
] as const;
type Filters = Record<(typeof FIELDS)[number][0], string>;
const NO_FILTERS: Filters = { actor: "", action: "", target: "", from: "", to: "" };

const given = (filters: Filters) => Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== ""));

/** Of a whole organization or of one app. */
export type LogOf = { readonly orgId: string } | { readonly appId: string };

function useLog(of: LogOf, filters: Filters, page: number) {
	const query = given(filters);
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

function exportAddress(of: LogOf, filters: Filters): string {
	const query = new URLSearchParams({ ...given(filters), format: "ndjson" });
	if ("appId" in of) return `/app/${encodeURIComponent(of.appId)}/audit?${query}`;
	query.set("orgId", of.orgId);
	return `/organization/audit?${query}`;
}

export function AuditLog({
	of,
	title,
	note,
}: {
	readonly of: LogOf;
	readonly title: string;
	readonly note: ReactNode;
}) {
	const [page, setPage] = usePageNumber();
	const [form, setForm] = useState(NO_FILTERS);
	const [filters, setFilters] = useState(NO_FILTERS);
	const log = useLog(of, filters, page);
	const isFiltered = Object.values(filters).some((value) => value !== "");
	return (
		<Screen
			title={title}
			note={note}
			actions={
				<Button component="a" variant="default" href={exportAddress(of, filters)} download="audit.ndjson">
					Save as NDJSON
				</Button>
			}
		>
			<form
				onSubmit={(event) => {
					event.preventDefault();
					setFilters(form);
					setPage(0);
				}}
			>
				<Group align="flex-end" gap="sm">
					{FIELDS.map(([field, label, type]) => (
						<TextInput
							key={field}
							type={type}
							label={label}
							placeholder={field === "action" ? "channel.delete" : ""}
							value={form[field]}
							onChange={(event) => setForm({ ...form, [field]: event.currentTarget.value })}
						/>
					))}
					<Button type="submit" variant="default">
						Filter
					</Button>
					{isFiltered ? (
						<Button
							variant="subtle"
							onClick={() => {
								setForm(NO_FILTERS);
								setFilters(NO_FILTERS);
								setPage(0);
							}}
						>
							Show all
						</Button>
					) : null}
				</Group>
			</form>
			<Answer query={log} what="changes">
				{({ items, hasNext }) =>
					items.length === 0 && page === 0 ? (
						<Empty title={isFiltered ? "No change matches" : "Nothing was changed yet"}>
							{isFiltered ? "Widen the filter, or show all." : "Every change will stand here, with who made it."}
						</Empty>
					) : (
						<Stack gap="sm">
							<DataTable
								label="Changes"
								rows={items}
								rowKey={({ id }) => id}
								columns={[
									{
										title: "What",
										cell: (change) => (
											<Stack gap={4}>
												<Text size="sm">
													<strong>{change.actor.name}</strong> {changeText(change)}
												</Text>
												<Code w="fit-content">{change.action}</Code>
												<Differences change={change} />
											</Stack>
										),
									},
									{
										title: "When",
										cell: ({ at }) => (
											<time dateTime={at} title={at}>
												{timeText(at)}
											</time>
										),
									},
									{ title: "From where", wideOnly: true, cell: ({ ip_address }) => ip_address ?? "—" },
								]}
							/>
							<Pager page={page} hasNext={hasNext} onPage={setPage} />
						</Stack>
					)
				}
			</Answer>
		</Screen>
	);
}
