/** The files of a bundle with their sizes, the largest first, and a filter. */
import { TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type AnswerOf, ask } from "../../api";
import { Answer } from "../../components/answer";
import { Note } from "../../components/card";
import { Empty, Section } from "../../components/screen";
import { countOf, sizeText } from "../../components/size";
import { DataTable, Pager, pageOf, usePageNumber } from "../../components/table";

type Files = AnswerOf<"GET /bundle/files">;

const NOT_LISTED: Readonly<Record<NonNullable<Files["not_listed"]>, string>> = {
	encrypted: "The zip is encrypted, so its files cannot be listed here.",
	external: "The zip is on another server, so its files cannot be listed here.",
	unreadable: "The zip has too many files to list them here.",
};
const TYPING_MS = 300;

export function FileList({ appId, version }: { readonly appId: string; readonly version: string }) {
	const [text, setText] = useState("");
	const [search] = useDebouncedValue(text.trim(), TYPING_MS);
	const [page, setPage] = usePageNumber("files");
	const query = { app_id: appId, version, ...(search === "" ? {} : { search }) };
	const files = useQuery<Files, Error>({
		queryKey: ["GET /bundle/files", query],
		queryFn: () => ask("GET /bundle/files", { query }),
		placeholderData: keepPreviousData,
	});
	return (
		<Section title="Files">
			<Answer query={files} what="the files">
				{({ files: named, total, bytes, not_listed, by }) => {
					if (not_listed !== null) return <Note>{NOT_LISTED[not_listed]}</Note>;
					const shown = pageOf(named, page);
					return (
						<>
							<div className="row wrap between">
								<TextInput
									aria-label="Filter files by path"
									placeholder="Filter by path, e.g. .js"
									value={text}
									onChange={(event) => {
										setText(event.currentTarget.value);
										setPage(0);
									}}
								/>
								<span className="muted">
									{countOf(total, "file")}, {sizeText(bytes)}
									{by === "zip" ? " compressed" : ""}
								</span>
							</div>
							{total === 0 ? (
								<Empty title="No matching files">Change the filter.</Empty>
							) : (
								<DataTable
									label="Files"
									rows={shown.items}
									rowKey={({ file }) => file}
									columns={[
										{ title: "File", cell: ({ file }) => <span className="file-path">{file}</span> },
										{
											title: "Unpacked",
											wideOnly: true,
											alignEnd: true,
											cell: ({ size }) => (size === null ? "—" : sizeText(size)),
										},
										{ title: "Download", alignEnd: true, cell: ({ stored }) => sizeText(stored) },
									]}
								/>
							)}
							<Pager page={shown.page} hasNext={shown.hasNext} onPage={setPage} />
							{total > named.length && !shown.hasNext ? (
								<p className="muted">{`${countOf(total - named.length, "smaller file")} not listed. Filter by path to find them.`}</p>
							) : null}
						</>
					);
				}}
			</Answer>
		</Section>
	);
}
