/**
 * What the page "Connect" prints: the app's configuration and the workflows of its CI. Everything here works as it stands, with the stock
 * command line and a key of the role that the page names.
 */

export function configuration({
	origin,
	appId,
	appName,
	webDir,
}: {
	readonly origin: string;
	readonly appId: string;
	readonly appName: string;
	/** The folder that the build writes. */
	readonly webDir: string;
}): string {
	const config = {
		appId,
		appName,
		webDir,
		plugins: {
			CapacitorUpdater: {
				autoUpdate: true,
				localApi: origin,
				localApiFiles: origin,
				updateUrl: `${origin}/updates`,
				statsUrl: `${origin}/stats`,
				channelUrl: `${origin}/channel_self`,
			},
		},
	};
	return JSON.stringify(config, null, 2);
}

export const START = `import { CapacitorUpdater } from "@capgo/capacitor-updater";

// Tells that this bundle works; without it the device goes back to the one before.
CapacitorUpdater.notifyAppReady();
`;

const SET_UP = `    runs-on: ubuntu-latest
    env:
      CAPSTAN_KEY: \${{ secrets.CAPSTAN_KEY }}
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with:
          node-version: 22
          cache: npm
      - run: npm ci`;

const command = (cliVersion: string) => `npx @capgo/cli@${cliVersion}`;

/**
 * A job that is run again has its number still; with the attempt its bundle has a name of its own, one patch later. The CLI refuses what
 * the channel serves already, which is what a push brings that touches no file of the app: its job must not fail for that.
 */
export function releaseWorkflow(cliVersion: string, appId: string, channel: string): string {
	return `name: Release
on:
  push:
    branches: [main]
jobs:
  release:
${SET_UP}
      - run: npm run build
      - run: >-
          ${command(cliVersion)} bundle upload ${appId}
          --bundle "1.0.$(( \${{ github.run_number }} * 100 + \${{ github.run_attempt }} ))"
          --channel "${channel}"
          --ignore-checksum-check
          --apikey "$CAPSTAN_KEY"
`;
}

/**
 * Testers keep their channel from push to push. A preview key deletes a bundle with a channel of its own that serves it, and in no other
 * way, so those of earlier pushes get one each before they go. One job at a time: the clean-up must not miss an upload.
 */
export function previewWorkflow(cliVersion: string, appId: string): string {
	const cli = command(cliVersion);
	return `name: Preview
on:
  pull_request:
    types: [opened, synchronize, reopened, closed]
concurrency: preview-\${{ github.event.number }}
jobs:
  preview:
    if: github.event.action != 'closed'
${SET_UP}
      - run: npm run build
      - run: >-
          ${cli} bundle upload ${appId}
          --bundle "1.0.0-pr.\${{ github.event.number }}.\${{ github.run_number }}.\${{ github.run_attempt }}"
          --channel "pr-\${{ github.event.number }}"
          --self-assign
          --ignore-checksum-check
          --apikey "$CAPSTAN_KEY"
  clean-up:
    if: github.event.action == 'closed'
${SET_UP}
      # The last bundle goes with the channel; those of earlier pushes each get a channel to go with.
      - run: |
          export CAPGO_TOKEN="$CAPSTAN_KEY" channel="pr-\${{ github.event.number }}"
          ${cli} channel delete "$channel" ${appId} --delete-bundle || true
          list="$(${cli} bundle list ${appId})"
          for version in $(grep -owE '1\\.0\\.0-pr\\.\${{ github.event.number }}\\.[0-9.]+' <<< "$list" | sort -u); do
            ${cli} channel add "$channel-old" ${appId} || true
            ${cli} channel set "$channel-old" ${appId} --bundle "$version"
            ${cli} channel delete "$channel-old" ${appId} --delete-bundle
          done
`;
}
