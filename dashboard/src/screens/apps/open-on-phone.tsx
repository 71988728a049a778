/**
 * "See it on a device": the code opens the live bundle in an installed app, as that of a preview
 * does.
 */
import { useAsk, usePage } from "../../api";
import { QrCode } from "../../components/qr-code";

export default function OpenOnPhone({ appId }: { readonly appId: string }) {
	const channels = usePage("GET /channel", { query: { app_id: appId } }, 0).data?.items ?? [];
	const live = channels.filter(({ version }) => version !== null);
	const channel = live.find((one) => one.public) ?? live[0];
	const link = useAsk(
		"GET /preview/link",
		{ query: { app_id: appId, channel: channel?.name ?? "" } },
		{ enabled: channel !== undefined },
	);
	const addresses = useAsk("GET /service/addresses", {});
	const network = addresses.data?.find(({ kind }) => kind === "network");
	if (link.data === undefined || channel === undefined) return null;
	return (
		<div className="open-on-phone">
			<QrCode text={link.data.deep_link} label={`QR code that opens ${channel.version?.name} in your app`} />
			<div className="stack">
				<strong className="strong">Scan it with a phone that has your app</strong>
				<span className="said">
					The app opens {channel.version?.name}. Or start the app on a device or in an emulator: it asks for an update
					by itself. <a href={link.data.deep_link}>Open it on this device</a>
				</span>
				{network?.reachable === false ? (
					<span className="said">
						Phones cannot reach Capstan yet. Stop it and run <span className="mono">npm start -- --lan</span>.
					</span>
				) : null}
			</div>
		</div>
	);
}
