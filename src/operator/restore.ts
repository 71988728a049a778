/**
 * `npm run restore`: fills an empty installation from a backup. Every file of the backup is checked
 * before anything is changed.
 *
 * - The state of `npm start` is built aside and renamed into place at the end, so a restore that
 *   was killed leaves an empty state.
 * - On an account, Cloudflare applies the SQL of a database as a whole, and a mark in each database
 *   says from which backup it is until all of them and the bucket are complete. The same command
 *   continues a restore that was killed.
 * - Rows are restored without triggers, which would count and announce them again. A local restore
 *   installs the triggers; the first request of a deployment does, because the change feed is
 *   empty. With a new feed, isolates invalidate what they cached.
 */
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { NAME_OPTION, readDeployment, refuseLocalName } from "./deployment";
import { Failure } from "./failure";
import { readOptions } from "./options";
import { stateDirectory } from "./places";
import { showProgress } from "./progress";
import { restoreAccount } from "./restore-account";
import { checkedManifest, type RestoreOptions, type RestoreSummary } from "./restore-plan";
import { restoreState } from "./restore-state";

const HELP = `Fills an empty installation from a backup of npm run backup. Nothing is changed unless every file of the
backup is as it was written.

  npm run restore -- <directory>            the deployment, before npm run deploy
  npm run restore -- <directory> --name=NAME
                                            another deployment than capstan, with deployments/NAME.toml
  npm run restore -- <directory> --local    the state of npm start, which must not have any yet
  npm run restore -- <directory> --missing-objects
                                            stores only objects that the bucket of an installation lacks
  npm run restore -- <directory> --json     one JSON document on standard output

  --location=weur          where new databases and a new bucket are created, as for npm run deploy
  --without-secret         restores although the secret is lost: stored keys and webhooks cannot be opened
  CAPSTAN_SECRET           secret of the installation that was backed up; a local restore also takes secret.key
  CAPSTAN_STATE            state directory of npm start (default .capstan)
  CLOUDFLARE_API_TOKEN, CLOUDFLARE_ACCOUNT_ID   as for npm run deploy
`;

function linesOfSummary({ rows, objects, storedObjects, seconds, ...summary }: RestoreSummary): string[] {
	const { missingObjects, failedObjects } = summary;
	return [
		`Restored ${rows} rows and ${objects} objects (${storedObjects} stored) of ${summary.createdAt} in ${seconds} s.`,
		...(missingObjects.length === 0 ? [] : [`The backup lacks objects: ${missingObjects.join(", ")}.`]),
		...(failedObjects.length === 0
			? []
			: [
					`Larger than Cloudflare's API accepts, store them with rclone or another S3 client: ${failedObjects.join(", ")}.`,
				]),
		...summary.next,
	];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	const progress = showProgress(process.argv.includes("--json") ? undefined : process.stderr, "Restore");
	try {
		const { values, positionals } = readOptions("npm run restore", {
			allowPositionals: true,
			options: {
				...NAME_OPTION,
				help: { type: "boolean" },
				json: { type: "boolean" },
				local: { type: "boolean" },
				location: { type: "string" },
				"missing-objects": { type: "boolean" },
				"without-secret": { type: "boolean" },
			},
		});
		const [given, ...more] = positionals;
		if (values.help === true) console.log(HELP);
		else if (given === undefined || more.length > 0) {
			throw new Failure("Name the directory of one backup. See npm run restore -- --help.");
		} else {
			refuseLocalName(values);
			const directory = resolve(given);
			progress.step("checking the backup");
			const options: RestoreOptions = {
				directory,
				progress,
				manifest: await checkedManifest(directory, progress),
				withoutSecret: values["without-secret"] === true,
				onlyObjects: values["missing-objects"] === true,
			};
			const summary = await (values.local === true
				? restoreState(options, stateDirectory())
				: restoreAccount(options, readDeployment(values.name), { location: values.location }));
			progress.end();
			if (values.json === true) console.log(JSON.stringify(summary, undefined, "\t"));
			else for (const line of linesOfSummary(summary)) console.log(line);
			if (summary.failedObjects.length > 0) process.exitCode = 1;
		}
	} catch (error) {
		progress.end();
		console.error(error instanceof Failure ? error.message : error);
		process.exitCode = 1;
	}
}
