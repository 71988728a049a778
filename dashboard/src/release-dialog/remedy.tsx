/**
 * The place where a person changes what keeps devices from a bundle: the settings of the channel,
 * the page of the bundle, or one of the devices, whose page says what helps.
 */
import { REFUSALS, type RefusalCode } from "../../../src/domain/updates/refusals";
import type { Unreached } from "../components/change-counts";
import { TextLink } from "../components/link";
import { bundlePath, channelPath, devicePath } from "../paths";

interface Place {
	readonly to: string;
	readonly label: string;
}

/** Names of channels are longer than a line; the title of the dialog has them. */
const SHOWN_LETTERS = 24;

export function placesOf({ code, examples, devices }: Unreached, at: Release): readonly Place[] {
	const { appId, name, version } = at;
	const [device] = examples;
	const ofDevice =
		device === undefined
			? []
			: [{ to: devicePath(appId, device), label: devices === 1 ? "Open the device" : "Open one of them" }];
	const decidedBy = Object.hasOwn(REFUSALS, code) ? REFUSALS[code as RefusalCode].decidedBy : "device";
	const shown = name.length > SHOWN_LETTERS ? "the channel" : name;
	const ofBundle = { to: bundlePath(appId, version), label: `Open bundle ${version}` };
	if (decidedBy === "channel_rule") {
		const settings = { to: `${channelPath(appId, name)}?do=edit`, label: `Change settings of ${shown}` };
		return isOfBundle(code) ? [settings, ofBundle] : [settings];
	}
	return decidedBy === "bundle" ? [ofBundle] : ofDevice;
}

/** The bundle's minimum store version decides. */
const isOfBundle = (code: string) => code === "disable_auto_update_to_metadata" || code === "misconfigured_channel";

interface Release {
	readonly appId: string;
	/** The channel. */
	readonly name: string;
	readonly version: string;
}

export function Remedies({ group, at }: { readonly group: Unreached; readonly at: Release }) {
	return (
		<span className="release-remedies small">
			{placesOf(group, at).map(({ to, label }) => (
				<TextLink key={to} to={to}>
					{label}
				</TextLink>
			))}
		</span>
	);
}
