/**
 * The promotion of bundles that previews uploaded. A pull request chooses the version of its
 * bundle, and may choose that of the next release. So the right to promote is not enough for a
 * channel outside of previews: the request, or the version, has to say that the bundle is a
 * preview's. A version such as 0.0.0-pr-128.7 says so, and the stock CLI can promote it.
 */
import type { ChannelRow } from "../../db/channels";
import { DEFAULT_PREVIEW_PREFIX } from "../../domain/ci/preview-names";
import { ApiError } from "../../errors";
import type { ChannelBody } from "./body";
import type { LoadedBundle } from "./served-bundles";

/** @throws {ApiError} `bundle_from_preview` */
export function refusePreviewBundle(
	{ allow_preview_bundle }: Pick<ChannelBody, "allow_preview_bundle">,
	channel: Pick<ChannelRow, "name" | "is_preview">,
	promoted: readonly LoadedBundle[],
): void {
	if (allow_preview_bundle === true || channel.is_preview === 1) return;
	const bundle = promoted.find((one) => isOfPreview(one) && !namesPreview(one));
	if (bundle === undefined) return;
	throw new ApiError(
		"bundle_from_preview",
		`A preview key uploaded ${bundle.name}, and this version does not name its preview. Check the bundle; to release it to ${channel.name}, send allow_preview_bundle: true.`,
		{ moreInfo: { version: bundle.name, channel: channel.name } },
	);
}

const isOfPreview = (bundle: LoadedBundle) => bundle.by_preview_key === 1 || bundle.preview_id !== null;

/**
 * Whether the pre-release says that it is a preview's: "0.0.0-pr-128.7", which names the channel of
 * its pull request, or "1.4.0-pr.128".
 */
function namesPreview({ name, preview_channel_prefix }: LoadedBundle): boolean {
	const prefix = preview_channel_prefix ?? DEFAULT_PREVIEW_PREFIX;
	const preRelease = /^[^-+]+-([^+]+)/.exec(name)?.[1] ?? "";
	return preRelease.startsWith(prefix) || preRelease.startsWith(`${prefix.replace(/-$/, "")}.`);
}
