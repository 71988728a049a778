/**
 * Actions of GitHub that printed workflows use, by the commit of a release: a tag can be moved to
 * other code, and a job that releases would run it. The comment after a commit names its release,
 * which tools that update workflows read.
 */
export const CHECKOUT = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2";
export const SETUP_NODE = "actions/setup-node@49933ea5288caeca8642d1e84afbd3f7d6820020 # v4.4.0";
export const CACHE = "actions/cache@0057852bfaa89a56745cba8c7296529d2fc39830 # v4.3.0";
export const UPLOAD_ARTIFACT = "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02 # v4.6.2";
export const DOWNLOAD_ARTIFACT = "actions/download-artifact@d3f86a106a0bac45b974a628896c90dbdf5c8093 # v4.3.0";
/** GitHub Enterprise Server refuses version 4 of both. */
export const UPLOAD_ARTIFACT_OF_SERVER =
	"actions/upload-artifact@c24449f33cd45d4826c6702db7e49f7cdb9b551d # v3.2.1-node20";
export const DOWNLOAD_ARTIFACT_OF_SERVER =
	"actions/download-artifact@ad191675b41f6a5b46da9a048cb6893812da158b # v3.1.0-node20";
