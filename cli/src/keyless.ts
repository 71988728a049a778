/**
 * Keyless CI: the job's identity token becomes an API key of a few minutes (POST /oidc/token). The
 * token is requested for the server's address, so no other server can use it. Neither token nor key
 * is printed or stored.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { type AnswerOf, CapstanError } from "../../src/client/client";
import { connect, type Server, sleep } from "./api";
import type { Run } from "./command";
import { EXIT, Failure } from "./failure";
import { originOf } from "./project";

const TIME_LIMIT_MS = 30_000;
const ISSUER_TRIES = 3;
const ISSUER_PAUSE_MS = 5_000;

/**
 * Gets a token for an audience.
 * @throws {Failure} `identity_token_unavailable`
 */
type Source = (audience: string) => Promise<string>;

/**
 * The way in which this job gets identity tokens; undefined outside of CI, or if the job has no
 * permission.
 */
function tokenSource(environment: Run["environment"]): Source | undefined {
	const {
		ACTIONS_ID_TOKEN_REQUEST_URL: githubUrl,
		ACTIONS_ID_TOKEN_REQUEST_TOKEN: githubToken,
		CAPSTAN_ID_TOKEN: ready,
	} = environment;
	// GitLab puts the token of `id_tokens` into a variable of the job's choice.
	if (ready !== undefined && ready !== "") return async () => ready;
	if (githubUrl !== undefined && githubToken !== undefined)
		return (audience) => fromGithub(githubUrl, githubToken, audience);
	if (environment.CIRCLECI === "true" && (environment.CIRCLE_OIDC_TOKEN ?? "") !== "") {
		return (audience) =>
			printed(environment, "circleci", ["run", "oidc", "get", "--claims", JSON.stringify({ aud: audience })]);
	}
	if (environment.BUILDKITE === "true") {
		return (audience) => printed(environment, "buildkite-agent", ["oidc", "request-token", "--audience", audience]);
	}
	return undefined;
}

async function fromGithub(address: string, bearer: string, audience: string): Promise<string> {
	const url = new URL(address);
	url.searchParams.set("audience", audience);
	const response = await fetch(url, {
		headers: { authorization: `Bearer ${bearer}`, accept: "application/json" },
		signal: AbortSignal.timeout(TIME_LIMIT_MS),
	}).catch(() => undefined);
	const answer = response?.ok === true ? ((await response.json()) as { readonly value?: unknown }) : undefined;
	if (typeof answer?.value === "string") return answer.value;
	throw noToken(`GitHub answered ${response?.status ?? "nothing"}; the job needs permissions: id-token: write`);
}

async function printed(environment: Run["environment"], program: string, words: readonly string[]): Promise<string> {
	try {
		const env = environment as NodeJS.ProcessEnv;
		const { stdout } = await promisify(execFile)(program, [...words], { env, timeout: TIME_LIMIT_MS });
		return stdout.trim();
	} catch (error) {
		const { code } = error as { readonly code?: string | number };
		throw noToken(`${program} ${words[0]} failed (${code ?? "no answer"})`);
	}
}

const noToken = (reason: string) =>
	new Failure("identity_token_unavailable", `This job got no identity token: ${reason}.`, EXIT.denied);

/** The stages of publishers that a command can use, the preferred one first; empty: any. */
export type Stages = readonly ("preview" | "propose" | "promote")[];

/**
 * For commands that change what a public channel serves. A publisher of previews would win over
 * these, because it has fewer rights.
 */
export const RELEASE_STAGES: Stages = ["promote", "propose"];

/** A key for the app; undefined if this is no job that offers identity tokens. */
export async function keylessKey(run: Run, origin: string, appId: string, stages: Stages): Promise<string | undefined> {
	const source = tokenSource(run.environment);
	if (source === undefined) return undefined;
	const token = await source(origin);
	run.terminal.conceal(token);
	refuseOtherAudience(token, origin);
	const answer = await exchanged(connect(origin, undefined, run.version), { token, app_id: appId }, stages);
	run.terminal.conceal(answer.token);
	run.terminal.note(`Keyless: a ${answer.stage} key for ${answer.app_id} until ${answer.expires_at}`);
	return answer.token;
}

/**
 * A token that the job got ready-made is for the server in its audience. Another server would
 * exchange it there.
 * @throws {Failure} `identity_token_unavailable`
 */
function refuseOtherAudience(token: string, origin: string): void {
	const audiences = audiencesOf(token);
	if (audiences.length > 0 && audiences.every((audience) => originOf(audience) === origin)) return;
	const named = audiences.length === 0 ? "no server" : audiences.join(", ");
	throw noToken(`its token is for ${named} and was not sent to ${origin}; request it with the audience ${origin}`);
}

function audiencesOf(token: string): string[] {
	try {
		const payload = Buffer.from(token.split(".")[1] ?? "", "base64url").toString("utf8");
		const { aud } = JSON.parse(payload) as { readonly aud?: unknown };
		return (Array.isArray(aud) ? aud : [aud]).filter((audience) => typeof audience === "string");
	} catch {
		return [];
	}
}

/**
 * Each token is accepted once, so an answer that was lost cannot be asked for again. A refused
 * exchange does not use the token up.
 */
async function exchanged(
	{ apiOnce }: Pick<Server, "apiOnce">,
	body: { readonly token: string; readonly app_id: string },
	stages: Stages,
	tries = ISSUER_TRIES,
): Promise<AnswerOf<"POST /oidc/token">> {
	const [stage, ...others] = stages;
	try {
		return await apiOnce("POST /oidc/token", { body: { ...body, ...(stage === undefined ? {} : { stage }) } });
	} catch (error) {
		// Another job makes the server fetch the issuer's keys at this moment. The token is not used up.
		if (tries > 0 && error instanceof CapstanError && error.code === "issuer_unavailable") {
			await sleep(ISSUER_PAUSE_MS);
			return exchanged({ apiOnce }, body, stages, tries - 1);
		}
		if (others.length === 0 || !isUntrusted(error)) throw error;
		return await exchanged({ apiOnce }, body, others).catch((other: unknown) => {
			// A claim that differs explains more than a stage without publishers.
			const isFirst = isUntrusted(other) && (error.moreInfo.expected !== null || other.moreInfo.expected === null);
			throw isFirst ? error : other;
		});
	}
}

const isUntrusted = (error: unknown): error is CapstanError =>
	error instanceof CapstanError && error.code === "no_matching_publisher";
