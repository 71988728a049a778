/**
 * The checks of `npm run doctor`: what an installation answers from outside, at the address that
 * devices use, and what it reports to its operator. Each check is one finding with the remedy. A
 * check that could not run reports that and is no additional failure.
 */
import * as v from "valibot";
import type { ConfigVariables } from "../config";
import { CLEAN_UP_MINUTES, FULL_DATABASE_REMEDY } from "../domain/defaults";
import { liveBundles } from "./doctor-bytes";
import { type AccountFacts, type DoctorOptions, type Finding, type Status, statusSchema } from "./doctor-types";
import { cleanUp, consumers, deadMessages, queue, webhooks } from "./doctor-work";
import { npmCommand } from "./options";

const DEADLINE_MS = 15_000;
const LARGEST_DATABASE_BYTES = 10_000_000_000;
const MOST_SKEW_MS = 60_000;
const UNKNOWN_APP = "com.example.capstan-doctor";

const redeploy = ({ option }: DoctorOptions) => `Run ${npmCommand("deploy", option)} from this checkout.`;
const SETTINGS = "the settings of the deployment";

export async function examine(options: DoctorOptions): Promise<readonly Finding[]> {
	const probe = probing(options);
	const ok = await probe("GET", "/ok");
	const [reachable, answer] = reachability(options, ok);
	const account = options.isLocal ? undefined : await options.account();
	const ofAccount = options.isLocal ? [] : [secrets(options, account), consumers(options, account)];
	if (answer === undefined) return [...reachable, ...ofAccount];
	const status = await readStatus(options, probe);
	return [
		...reachable,
		release(options, answer.version),
		schema(options, answer.schema),
		await updateCheck(probe),
		...ofAccount,
		...("finding" in status ? [status.finding] : await inside(options, probe, status.status)),
	];
}

interface Probed {
	readonly status: number;
	readonly headers: Headers;
	readonly body: Readonly<Record<string, unknown>>;
}
type Probe = (method: string, path: string, init?: RequestInit) => Promise<Probed | Error>;

function probing({ url, fetch: send = fetch }: DoctorOptions): Probe {
	return async (method, path, init = {}) => {
		try {
			const target = new URL(path, url);
			const response = await send(target, {
				method,
				redirect: "manual",
				...init,
				signal: AbortSignal.timeout(DEADLINE_MS),
			});
			const text = await response.text();
			const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
			const json: unknown = isJson && text !== "" ? JSON.parse(text) : {};
			const body = typeof json === "object" && json !== null ? json : {};
			return { status: response.status, headers: response.headers, body: body as Probed["body"] };
		} catch (error) {
			return new Error(connectionText(error as Error));
		}
	};
}

function connectionText({ cause, message }: Error): string {
	const { code, message: reason = "" } = (cause ?? {}) as { readonly code?: unknown; readonly message?: string };
	// The text of OpenSSL names files of its source.
	if (String(code).startsWith("ERR_SSL_")) return `no TLS at this port (${code}); an address may begin with http://`;
	return reason === "" ? message : reason;
}

function reachability(
	{ url, isLocal, option }: DoctorOptions,
	ok: Probed | Error,
): [Finding[], Probed["body"] | undefined] {
	const failed = (detail: string, remedy: string): [Finding[], undefined] => [
		[{ check: "address", state: "failed", detail, remedy }],
		undefined,
	];
	if (ok instanceof Error) {
		return failed(
			`${url} does not answer: ${ok.message}`,
			isLocal
				? "Run npm start."
				: "Check the address and its DNS records. A new domain or workers.dev subdomain takes some minutes.",
		);
	}
	if (isChallenge(ok)) return failed(`${url} answers with a challenge for browsers`, CHALLENGE_REMEDY);
	if (ok.status === 503 && typeof ok.body.message === "string" && ok.body.message.includes("not configured")) {
		return failed(
			`${url} runs, but a setting is missing or invalid`,
			`Run npx wrangler tail and repeat this command: the log line bad_configuration names the variable. ${npmCommand("deploy", option)} creates a missing CAPSTAN_SECRET.`,
		);
	}
	if (ok.status !== 200 || ok.body.status !== "ok") {
		const location = ok.headers.get("location");
		const elsewhere = location === null ? "" : ` and leads to ${location}`;
		return failed(`${url}/ok answers ${ok.status}${elsewhere}, not as Capstan does`, CHECK_ADDRESS);
	}
	if (!isLocal && new URL(url).protocol !== "https:") {
		const remedy = "Use the https address in apps and in PUBLIC_URL, because keys and links travel in requests.";
		return [[{ check: "address", state: "failed", detail: `${url} is not encrypted`, remedy }], ok.body];
	}
	if (new URL(url).hostname.endsWith(".workers.dev")) {
		const remedy = "Add a domain of your own before you ship this address in an app (docs: Deploying, A domain).";
		return [
			[{ check: "address", state: "warning", detail: `${url} answers, on a workers.dev address`, remedy }],
			ok.body,
		];
	}
	return [[{ check: "address", state: "ok", detail: `${url} answers` }], ok.body];
}

const CHECK_ADDRESS = "Check the address and the route of the Worker.";

const CHALLENGE_REMEDY =
	"Turn off Bot Fight Mode and Under Attack Mode for this hostname, or add a WAF rule that skips them: devices solve no challenges.";

function isChallenge({ headers }: Probed): boolean {
	return headers.get("cf-mitigated") === "challenge";
}

function release(options: DoctorOptions, version: unknown): Finding {
	const { version: own } = options;
	if (version === own) return { check: "version", state: "ok", detail: own };
	const detail = `the Worker is ${typeof version === "string" ? version : "of an earlier release"}, this checkout is ${own}`;
	return { check: "version", state: "warning", detail, remedy: redeploy(options) };
}

function schema({ schema: own, isLocal }: DoctorOptions, name: unknown): Finding {
	if (name === own) return { check: "schema", state: "ok", detail: own };
	if (typeof name !== "string") {
		const remedy = "Check the status of D1 (https://www.cloudflarestatus.com), then repeat this command.";
		return { check: "schema", state: "failed", detail: "the database does not answer", remedy };
	}
	const isOlder = name < own;
	const remedy = isOlder
		? isLocal
			? "Restart npm start: it applies migrations."
			: "Run npm run deploy: it applies migrations first."
		: `Update this checkout, because a newer release has migrated the database. If it was a development build, ${isLocal ? "npm start" : "npm run deploy"} says how to start again.`;
	return {
		check: "schema",
		state: isOlder ? "failed" : "warning",
		detail: `${name}; this checkout has ${own}`,
		remedy,
	};
}

/** An update check of a device, with an app that does not exist. */
async function updateCheck(probe: Probe): Promise<Finding> {
	const body = JSON.stringify({
		app_id: UNKNOWN_APP,
		device_id: "00000000-0000-4000-8000-000000000000",
		version_name: "builtin",
		version_build: "1.0.0",
		platform: "android",
		plugin_version: "8.51.23",
		is_emulator: false,
		is_prod: true,
	});
	const answer = await probe("POST", "/updates", { headers: { "content-type": "application/json" }, body });
	const check = "update check";
	if (!(answer instanceof Error) && answer.status === 200 && answer.body.error === "app_not_found") {
		return { check, state: "ok", detail: "POST /updates answers devices" };
	}
	if (!(answer instanceof Error) && isChallenge(answer)) {
		return { check, state: "failed", detail: "POST /updates is answered with a challenge", remedy: CHALLENGE_REMEDY };
	}
	const detail = `POST /updates ${answer instanceof Error ? `failed: ${answer.message}` : `answers ${answer.status}`}`;
	return { check, state: "failed", detail, remedy: "Look for errors in npx wrangler tail." };
}

function secrets({ option }: DoctorOptions, account: AccountFacts | undefined): Finding {
	const check = "secrets";
	if (account === undefined) {
		const remedy = "Run npx wrangler login, or set CLOUDFLARE_API_TOKEN.";
		return { check, state: "skipped", detail: "wrangler cannot list them", remedy };
	}
	const needed: readonly (keyof ConfigVariables)[] = ["CAPSTAN_SECRET", "CAPSTAN_SECRET_2"];
	const found = needed.filter((name) => account.secrets.includes(name));
	if (found.length === 0) {
		const remedy = `Run ${npmCommand("deploy", option)}, which creates one. Restore the old one from a backup if you have it: keys that can be shown are sealed with it.`;
		return { check, state: "failed", detail: "CAPSTAN_SECRET is missing", remedy };
	}
	const detail =
		found.length === 2 ? "CAPSTAN_SECRET and CAPSTAN_SECRET_2: a rotation is in progress" : `${found[0]} is set`;
	return { check, state: "ok", detail };
}

type StatusRead = { readonly status: Status } | { readonly finding: Finding };

async function readStatus({ key, isLocal, option }: DoctorOptions, probe: Probe): Promise<StatusRead> {
	const check = "admin key";
	const newKey = isLocal ? "npm start -- --new-admin-key" : npmCommand("deploy", option, "--new-admin-key");
	if (key === undefined) {
		const remedy = `Run this where the admin key is stored, set CAPSTAN_KEY, or replace the key: ${newKey}.`;
		return { finding: { check, state: "skipped", detail: "there is none here, so checks inside did not run", remedy } };
	}
	const answer = await probe("GET", "/service/status", { headers: { authorization: key } });
	if (!(answer instanceof Error) && answer.status === 200) {
		const { success, output, issues } = v.safeParse(statusSchema, answer.body);
		if (success) return { status: output };
		const detail = `GET /service/status has no valid ${v.getDotPath(issues[0])}: another program answers, or a release that does not fit this checkout`;
		return { finding: { check: "status", state: "failed", detail, remedy: CHECK_ADDRESS } };
	}
	if (!(answer instanceof Error) && [401, 403, 404].includes(answer.status)) {
		const detail =
			answer.body.error === "not_found" ? "this release has no GET /service/status" : "the server refuses it";
		return { finding: { check, state: "failed", detail, remedy: `Replace the key: ${newKey}.` } };
	}
	const detail = `GET /service/status ${answer instanceof Error ? `failed: ${answer.message}` : `answers ${answer.status}`}`;
	return { finding: { check, state: "failed", detail, remedy: "Look for errors in npx wrangler tail." } };
}

async function inside(options: DoctorOptions, probe: Probe, status: Status): Promise<Finding[]> {
	return [
		{ check: "admin key", state: "ok", detail: "accepted" },
		clock(options, status),
		bindings(options, status),
		bucket(status),
		triggers(status),
		database(status),
		...telemetry(options, status),
		queue(options, status),
		deadMessages(options, status),
		webhooks(options, status),
		cleanUp(options, status),
		liveBundles(options, status),
		edgeCache(options, status),
		await publicUrl(options, status),
		...(await bundlesDomain(options, status)),
		await crossOrigin(probe, status),
	];
}

function clock({ nowMs, isLocal }: DoctorOptions, { now }: Status): Finding {
	const skewMs = nowMs() - Date.parse(now);
	if (Math.abs(skewMs) <= MOST_SKEW_MS) return { check: "clock", state: "ok", detail: "server and this machine agree" };
	const detail = `this machine is ${Math.round(Math.abs(skewMs) / 1000)} s ${skewMs > 0 ? "ahead of" : "behind"} the server`;
	const remedy = isLocal
		? "Restart npm start, and synchronize the clock of this machine."
		: "Synchronize the clock of this machine: keys, links and rollouts that you time here end at other moments.";
	return { check: "clock", state: "failed", detail, remedy };
}

function bindings(options: DoctorOptions, { missing_bindings: missing }: Status): Finding {
	const check = "bindings";
	if (missing.length === 0) return { check, state: "ok", detail: "all are set" };
	const remedy = `Restore them in wrangler.toml, as it is delivered, then: ${redeploy(options)}`;
	return { check, state: "failed", detail: `missing: ${missing.join(", ")}`, remedy };
}

function bucket({ bucket: state }: Status): Finding {
	const check = "bucket";
	if (state === "works") return { check, state: "ok", detail: "answers, with the newest bundles" };
	if (state === "lacks_bundles") {
		const remedy = `Set bucket_name of BUNDLES in ${SETTINGS} to the bucket that has them (npx wrangler r2 bucket list), and deploy again: devices cannot download now.`;
		return {
			check,
			state: "failed",
			detail: "has none of the newest bundles: it was emptied, or is another one",
			remedy,
		};
	}
	const remedy = "Check that the bucket of the Worker exists (npx wrangler r2 bucket list), then deploy again.";
	return { check, state: "failed", detail: "does not answer", remedy };
}

/** Devices do not hear of changes that no trigger writes into the change feed. */
function triggers({ missing_triggers: missing }: Status): Finding {
	const check = "triggers";
	if (missing === undefined) return { check, state: "skipped", detail: "this release does not report them" };
	if (missing === 0) return { check, state: "ok", detail: "the database has all" };
	const remedy = `The next clean-up, within ${CLEAN_UP_MINUTES} minutes, installs them. If this stays, look for step_failed in npx wrangler tail.`;
	return { check, state: "failed", detail: `the database lacks ${missing}, so changes may not reach devices`, remedy };
}

function database({ database: { size_bytes: bytes, telemetry_max_bytes: limit } }: Status): Finding {
	return size("database size", bytes, limit);
}

function size(check: string, bytes: number | null, limit: number): Finding {
	if (bytes === null) return { check, state: "skipped", detail: "the runtime does not report it" };
	const share = bytes / Math.min(limit, LARGEST_DATABASE_BYTES);
	const detail = `${(bytes / 1e6).toFixed(1)} MB, ${Math.round(share * 100)} % of the limit of ${(limit / 1e6).toFixed(0)} MB`;
	if (share < 0.7) return { check, state: "ok", detail };
	return { check, state: share < 0.9 ? "warning" : "failed", detail, remedy: FULL_DATABASE_REMEDY };
}

/** One line for each database of reports. */
function telemetry({ telemetrySchema: own, isLocal, option }: DoctorOptions, status: Status): Finding[] {
	if (status.telemetry === undefined) return [];
	return status.telemetry.map(({ binding, schema: name, size_bytes: bytes }) => {
		const check = binding === "TELEMETRY" ? "telemetry" : `telemetry ${binding}`;
		if (name === null) {
			const remedy = "Check the status of D1 (https://www.cloudflarestatus.com), then repeat this command.";
			return { check, state: "failed", detail: `the database ${binding} does not answer`, remedy };
		}
		if (name < own) {
			const remedy = isLocal
				? "Restart npm start: it applies migrations."
				: `Run ${npmCommand("deploy", option)}: it applies migrations.`;
			return { check, state: "failed", detail: `${name}; this checkout has ${own}`, remedy };
		}
		return size(check, bytes, status.database.telemetry_max_bytes);
	});
}

function edgeCache({ url }: DoctorOptions, { edge_cache: cache, settings }: Status): Finding {
	const check = "edge cache";
	if (cache === "works") return { check, state: "ok", detail: "copies of downloads are kept in the data center" };
	if (settings.bundles_url !== null) return { check, state: "ok", detail: "not needed with BUNDLES_URL" };
	const remedy = new URL(url).hostname.endsWith(".workers.dev")
		? "Add a domain of your own: the Cache API has no effect on workers.dev."
		: "Remove Cloudflare Access from this hostname: the Cache API has no effect behind it.";
	return { check, state: "warning", detail: "every download reads the bucket", remedy };
}

/** Never sends the key to another address than the examined one. */
async function publicUrl(options: DoctorOptions, { settings, version, schema: migrated }: Status): Promise<Finding> {
	const check = "public address";
	const { url, isLocal, option } = options;
	const { public_url: publicUrl } = settings;
	if (publicUrl === null || publicUrl === new URL(url).origin) {
		return { check, state: "ok", detail: publicUrl === null ? "links have the address of each request" : publicUrl };
	}
	const remedy = isLocal ? "" : `Correct PUBLIC_URL in ${SETTINGS}, and deploy again: every link leads there.`;
	const answer = await probing({ ...options, url: publicUrl })("GET", "/ok");
	const isCapstan = !(answer instanceof Error) && answer.body.version === version && answer.body.schema === migrated;
	if (isCapstan) {
		const detail = `links lead to ${publicUrl}, which answers with this release, not to ${url}`;
		return {
			check,
			state: "warning",
			detail,
			remedy: `Examine that address: ${npmCommand("doctor", option, `--url=${publicUrl}`)}`,
		};
	}
	const detail = `links lead to ${publicUrl}, which ${answer instanceof Error ? `does not answer: ${answer.message}` : "is another service"}`;
	return { check, state: "failed", detail, remedy };
}

/** R2 answers 404 for an object that does not exist. */
async function bundlesDomain(options: DoctorOptions, { settings }: Status): Promise<Finding[]> {
	const check = "bundles domain";
	const { bundles_url: bundlesUrl } = settings;
	if (bundlesUrl === null) return [];
	const answer = await probing({ ...options, url: bundlesUrl })("GET", "/capstan-doctor");
	if (!(answer instanceof Error) && answer.status === 404 && !isChallenge(answer)) {
		return [{ check, state: "ok", detail: `${bundlesUrl} answers` }];
	}
	const detail = `${bundlesUrl} ${answer instanceof Error ? `does not answer: ${answer.message}` : `answers ${answer.status} instead of 404`}`;
	const remedy =
		"Connect the domain to the bucket (docs: Deploying, Downloads from the bucket's own domain), or empty BUNDLES_URL and deploy: devices cannot download now.";
	return [{ check, state: "failed", detail, remedy }];
}

/** As browsers and apps send it: a scheme, a host, and a port that is not the scheme's own. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^/\s]+$/;

async function crossOrigin(probe: Probe, { settings }: Status): Promise<Finding> {
	const check = "CORS";
	const origins = settings.cors_allowed_origins;
	const allowed = async (origin: string) => {
		const headers = { origin, "access-control-request-method": "POST" };
		const answer = await probe("OPTIONS", "/updates", { headers });
		return answer instanceof Error ? null : answer.headers.get("access-control-allow-origin");
	};
	const stranger = await allowed("https://stranger.example");
	if (origins.length === 0) {
		if (stranger === "*") return { check, state: "ok", detail: "any origin may call the API with a key" };
		const remedy =
			"Remove the rule (a Transform Rule or a proxy) that changes access-control-allow-origin of the answers.";
		return { check, state: "failed", detail: `other origins get ${stranger ?? "no permission"} instead of *`, remedy };
	}
	if (stranger !== null && !origins.includes("https://stranger.example")) {
		const remedy =
			"Remove the rule (a Transform Rule or a proxy) that adds access-control-allow-origin in front of the Worker.";
		return { check, state: "failed", detail: "every origin may call the API", remedy };
	}
	for (const configured of origins) {
		if (ORIGIN.test(configured) && (await allowed(configured)) === configured) continue;
		const remedy = "Write origins as browsers send them (https://app.example.com, no path) in CORS_ALLOWED_ORIGINS.";
		return { check, state: "failed", detail: `${configured} may not call the API`, remedy };
	}
	return { check, state: "ok", detail: origins.join(", ") };
}
