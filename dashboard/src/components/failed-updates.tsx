/**
 * Failed updates by cause, most frequent first, with what helps: of an app in a range, or of one
 * bundle.
 */
import { useAsk } from "../api";
import { Answer } from "./answer";
import { Empty, Section } from "./screen";
import { countText, shareText } from "./size";
import { DataTable } from "./table";

const CAUSES = {
	download: {
		title: "Download broke off",
		help: "The network ended the download. Smaller bundles and updates by single files help.",
	},
	file: {
		title: "A single file failed",
		help: "A file of the manifest did not arrive. After two such downloads the device gets the zip.",
	},
	checksum: {
		title: "Checksum did not match",
		help: "The bytes are not those that were uploaded. Look for a proxy that changes them, or upload again.",
	},
	decrypt: {
		title: "Decryption failed",
		help: "The store build has another public key than the one that encrypted the bundle.",
	},
	unzip: { title: "Could not be unpacked", help: "The zip has a name or a size that the device cannot write." },
	space: { title: "No space or memory", help: "The device is full. Delete files that the bundle does not need." },
	refused: {
		title: "Refused by the server",
		help: "Settings of the channel, or no channel for the device. Use “Explain” on its page.",
	},
	app: {
		title: "New bundle did not start",
		help: "The app did not call notifyAppReady in time, so the device rolled back.",
	},
} as const;
type Cause = keyof typeof CAUSES;
const ORDER = Object.keys(CAUSES) as Cause[];

export function FailedUpdates({
	appId,
	title,
	query,
}: {
	readonly appId: string;
	readonly title: string;
	readonly query: { readonly from?: string; readonly to?: string; readonly version?: string };
}) {
	const failures = useAsk("GET /statistics/app/:app_id/failures", { params: { app_id: appId }, query });
	return (
		<Section title={title}>
			<Answer query={failures} what="the failed updates">
				{({ total }) => {
					const rows = ORDER.filter((cause) => total[cause] > 0).sort((one, other) => total[other] - total[one]);
					const all = rows.reduce((sum, cause) => sum + total[cause], 0);
					if (all === 0) return <Empty title="No device reported a failed update" />;
					return (
						<DataTable
							label={title}
							rows={rows}
							rowKey={(cause) => cause}
							columns={[
								{ title: "Cause", cell: (cause) => CAUSES[cause].title },
								{ title: "Devices", alignEnd: true, cell: (cause) => countText(total[cause]) },
								{ title: "Share", alignEnd: true, cell: (cause) => shareText(total[cause], all) },
								{ title: "What helps", wideOnly: true, cell: (cause) => CAUSES[cause].help },
							]}
						/>
					);
				}}
			</Answer>
		</Section>
	);
}
