/**
 * The releases of an app on its home, newest first, with filters in the address: what happened, by
 * whom, on which channel.
 */
import { NativeSelect } from "@mantine/core";
import { Answer } from "../../components/answer";
import { givenFilters, isFiltered, useFilters } from "../../components/filters";
import { TextLink } from "../../components/link";
import { Older, type Outcome, ReleaseTimeline } from "../../components/release-timeline";
import { Empty, Section } from "../../components/screen";
import { IconHistory } from "../../icons";
import { appPath } from "../../paths";
import { actorOf, type Release, type ReleaseFilters, useReleases } from "../../releases";

const KINDS = [
	{ value: "", label: "Everything" },
	{ value: "release", label: "Releases" },
	{ value: "rollback", label: "Rollbacks" },
	{ value: "rollout", label: "Rollouts" },
	{ value: "proposal", label: "Proposals" },
] as const;
const PREVIEWS = { value: "preview", label: "Previews" } as const;
const ANYBODY = { value: "", label: "Anybody" };
const BY_ITSELF = { value: "system", label: "Capstan (automatic)" };
const NAMES = ["kind", "by"] as const;

/** The actors of the known releases. */
function actorsOf(releases: readonly Release[], chosen: string) {
	const known = new Map<string, string>();
	for (const release of releases) {
		const { id } = release.actor;
		if (id !== null && !known.has(id)) known.set(id, actorOf(release).name);
	}
	if (chosen !== "" && chosen !== BY_ITSELF.value && !known.has(chosen)) known.set(chosen, "Chosen person");
	const people = [...known].map(([value, label]) => ({ value, label }));
	return [ANYBODY, ...people.sort((one, other) => one.label.localeCompare(other.label)), BY_ITSELF];
}

export function Releases({
	appId,
	outcomes,
	limitOf,
	previews,
	mayRollBack,
}: {
	readonly appId: string;
	readonly outcomes: readonly Outcome[];
	readonly limitOf: (channel: string) => number | undefined;
	/** The app has channels of pull requests. */
	readonly previews: boolean;
	readonly mayRollBack: boolean;
}) {
	const [filters, setFilters] = useFilters(NAMES);
	const { by, ...given } = givenFilters(filters);
	const all = useReleases(appId, {}, 50);
	const query: ReleaseFilters = { ...given, ...(by === undefined ? {} : { actor: by }) };
	const history = useReleases(appId, query, 50);
	const known = all.data?.pages.flat() ?? [];
	return (
		<Section title="Releases" actions={<TextLink to={appPath(appId, "changes")}>All activity</TextLink>}>
			{known.length === 0 ? null : (
				<fieldset className="release-filters" aria-label="Filter releases">
					<NativeSelect
						aria-label="Show"
						data={previews ? [...KINDS, PREVIEWS] : KINDS}
						value={filters.kind}
						onChange={(event) => setFilters({ ...filters, kind: event.currentTarget.value })}
					/>
					<NativeSelect
						aria-label="By"
						data={actorsOf(known, filters.by)}
						value={filters.by}
						onChange={(event) => setFilters({ ...filters, by: event.currentTarget.value })}
					/>
				</fieldset>
			)}
			<Answer query={history} what="releases">
				{({ pages }) => {
					const releases = pages.flat();
					if (releases.length === 0) {
						return (
							<Empty title={isFiltered(filters) ? "No matching releases" : "No releases yet"} icon={IconHistory}>
								{isFiltered(filters) ? "Choose another kind or person." : null}
							</Empty>
						);
					}
					return (
						<>
							<ReleaseTimeline
								label="Releases"
								appId={appId}
								releases={releases}
								outcomes={outcomes}
								limitOf={limitOf}
								mayRollBack={mayRollBack}
							/>
							<Older history={history} />
						</>
					);
				}}
			</Answer>
		</Section>
	);
}
