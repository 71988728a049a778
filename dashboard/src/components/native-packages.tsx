/**
 * Native packages of a bundle beside those of the live one, with a verdict for each: what an update
 * cannot bring to a store build.
 */
import type { AnswerOf } from "../api";
import { Badge } from "./badge";
import { Note } from "./card";
import { countOf } from "./size";
import { DataTable } from "./table";

type Compatibility = AnswerOf<"GET /bundle/compatibility">;
type ComparedPackage = Compatibility["packages"][number];

const PROBLEMS: Readonly<Record<NonNullable<ComparedPackage["problem"]>, string>> = {
	added: "Missing",
	version: "Other version",
	native_code: "Other code",
};

export function PackageTable({
	packages,
	liveVersion,
}: {
	readonly packages: readonly ComparedPackage[];
	/** Null: nothing is compared. */
	readonly liveVersion: string | null;
}) {
	const names = { title: "Package", cell: ({ name }: ComparedPackage) => name };
	const own = { title: "This bundle", cell: ({ version }: ComparedPackage) => version ?? "—" };
	return (
		<DataTable
			label="Native packages"
			rows={packages}
			rowKey={({ name }) => name}
			columns={
				liveVersion === null
					? [names, own]
					: [
							names,
							own,
							{ title: `Live ${liveVersion}`, wideOnly: true, cell: ({ live_version }) => live_version ?? "—" },
							{
								title: "Verdict",
								cell: ({ problem, version }) =>
									problem === null ? (
										<Badge tone="ok">{version === null ? "No longer used" : "Fits"}</Badge>
									) : (
										<Badge tone="bad">{PROBLEMS[problem]}</Badge>
									),
							},
						]
			}
		/>
	);
}

/** Renders nothing unless the bundle calls a package that the live bundle does not have. */
export function Misfits({
	compatibility: { verdict, packages, version, live_version },
}: {
	readonly compatibility: Pick<Compatibility, "verdict" | "packages" | "version" | "live_version">;
}) {
	if (verdict !== "incompatible") return null;
	const misfits = packages.filter(({ problem }) => problem !== null);
	return (
		<Note tone="warn" title={`${countOf(misfits.length, "native package")} may be missing on devices`} isAlert>
			<p>
				{`${version} was built with other plugins than ${live_version}, which is live. Devices need a store build that has: ${misfits
					.map((each) => `${each.name} ${each.version}`)
					.join(", ")}.`}
			</p>
		</Note>
	);
}
