/**
 * The native packages of a bundle beside those of the live bundle of a channel, and the store
 * builds that run them.
 */
import { NativeSelect } from "@mantine/core";
import { useSearchParams } from "wouter";
import { type AnswerOf, useAllPages, useAsk } from "../../api";
import { Answer } from "../../components/answer";
import { Note } from "../../components/card";
import { Misfits, PackageTable } from "../../components/native-packages";
import { Empty, Section } from "../../components/screen";
import { countOf } from "../../components/size";
import { Pager, pageOf, usePageNumber } from "../../components/table";

type Compatibility = AnswerOf<"GET /bundle/compatibility">;

export function BundlePackages({ appId, version }: { readonly appId: string; readonly version: string }) {
	const channels = useAllPages("GET /channel", { query: { app_id: appId } });
	const [address, setAddress] = useSearchParams();
	return (
		<Section title="Native packages">
			<Answer query={channels} what="channels">
				{(all) => {
					const [main] = all.toSorted((one, other) => Number(other.public) - Number(one.public) || one.id - other.id);
					const chosen = all.find(({ name }) => name === address.get("channel")) ?? main;
					if (chosen === undefined) return <Unlisted appId={appId} version={version} />;
					return (
						<>
							<NativeSelect
								label="Channel to release to"
								className="bundle-channel"
								value={chosen.name}
								data={all.map(({ name, version: live }) => ({
									value: name,
									label: `${name} (${live?.name ?? "store build"})`,
								}))}
								onChange={(event) => {
									const { value } = event.currentTarget;
									setAddress(
										(before) => {
											const after = new URLSearchParams(before);
											after.set("channel", value);
											return after;
										},
										{ replace: true },
									);
								}}
							/>
							<Compared appId={appId} version={version} channel={chosen.name} />
						</>
					);
				}}
			</Answer>
		</Section>
	);
}

/** Without a channel there is nothing to compare with. */
function Unlisted({ appId, version }: { readonly appId: string; readonly version: string }) {
	const bundle = useAsk("GET /bundle", { query: { app_id: appId, version } });
	const packages = bundle.data?.[0]?.native_packages ?? [];
	if (packages.length === 0) return <NoList />;
	return (
		<PackageTable
			packages={packages.map(({ name, version: own }) => ({ name, version: own, live_version: null, problem: null }))}
			liveVersion={null}
		/>
	);
}

const NoList = () => (
	<Empty title="No native packages listed">
		Bundles from <code>capstan release</code> and the stock CLI list the plugins that they call, so that Capstan can
		compare them with the store builds.
	</Empty>
);

function Compared({
	appId,
	version,
	channel,
}: {
	readonly appId: string;
	readonly version: string;
	readonly channel: string;
}) {
	const [page, setPage] = usePageNumber("packages");
	const compatibility = useAsk("GET /bundle/compatibility", { query: { app_id: appId, version, channel } });
	return (
		<Answer query={compatibility} what="the native packages">
			{(answer) => {
				const { packages, not_compared, live_version } = answer;
				const isCompared = not_compared === null || not_compared === "newer_store_builds_only";
				const shown = pageOf(packages, page);
				return (
					<>
						<Verdict answer={answer} channel={channel} />
						{packages.length === 0 ? (
							not_compared === "bundle_lists_none" ? (
								<NoList />
							) : null
						) : (
							<>
								<PackageTable packages={shown.items} liveVersion={isCompared ? live_version : null} />
								<Pager page={shown.page} hasNext={shown.hasNext} onPage={setPage} />
							</>
						)}
						<StoreBuilds answer={answer} />
					</>
				);
			}}
		</Answer>
	);
}

function Verdict({ answer, channel }: { readonly answer: Compatibility; readonly channel: string }) {
	const { verdict, not_compared, version, live_version, packages, required } = answer;
	if (verdict === "incompatible") {
		return (
			<>
				<Misfits compatibility={answer} />
				{required ? <p className="muted">{`${channel} refuses this bundle, by its settings.`}</p> : null}
			</>
		);
	}
	if (version === live_version) return <Note tone="ok">{`${version} is live on ${channel}.`}</Note>;
	if (not_compared === null) {
		const uses = packages.filter((each) => each.version !== null).length;
		return (
			<Note tone="ok">
				{uses === 0
					? `${version} uses no native packages, so it fits the store builds of ${channel}.`
					: `${version} fits the store builds of ${channel}: its ${countOf(uses, "native package")} ${uses === 1 ? "is" : "are"} the same as in ${live_version}.`}
			</Note>
		);
	}
	const reasons: Readonly<Record<NonNullable<typeof not_compared>, string>> = {
		store_build_live: `No bundle is live on ${channel}, so there is nothing to compare with.`,
		live_bundle_lists_none: `${live_version}, which is live on ${channel}, lists no native packages, so there is nothing to compare with.`,
		bundle_lists_none: `It is not known whether ${version} fits the store builds of ${channel}${required ? ", which therefore refuses it" : ""}.`,
		newer_store_builds_only: `${version} needs a newer store build than ${live_version}, so older store builds are not offered it.`,
	};
	return <Note>{reasons[not_compared]}</Note>;
}

const NAMED = 6;

function StoreBuilds({ answer: { store_builds: builds, packages } }: { readonly answer: Compatibility }) {
	if (builds.length === 0 || packages.every(({ version }) => version === null)) return null;
	const named = builds.slice(0, NAMED).join(", ");
	const more = builds.length > NAMED ? ` and ${builds.length - NAMED} more` : "";
	return (
		<p className="muted">{`Bundles with exactly these packages run on store build${builds.length === 1 ? "" : "s"} ${named}${more}.`}</p>
	);
}
