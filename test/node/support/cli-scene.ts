/**
 * The published @capgo/cli 8.68.1 against a product, through a recorder that keeps every request
 * and its answer.
 */
import { Response } from "miniflare";
import { expect } from "vitest";
import { type CliProject, createCliProject } from "../../proof/clients/capgo-cli";
import { startRecorder } from "../../proof/clients/recorder";
import { createProductApp, makeZip, type Product, startProduct } from "./product";

/** The only address outside of the product that answers. */
export const EXTERNAL_URL = "https://bundles.example.com/external.zip";

export interface CliScene {
	readonly product: Product;
	/** A project of an app that was created through the API. */
	newProject(): Promise<{ readonly cli: CliProject; readonly appId: string; readonly uuid: string }>;
	/** A project whose app does not exist yet. */
	projectOf(appId: string): Promise<CliProject>;
	/** The options that give the CLI the admin key. */
	admin(): readonly string[];
	/** Creates a channel through the API; by default the public one. */
	createChannel(appId: string, channel?: string, fields?: object): Promise<void>;
	channelOf(appId: string, channel: string): ReturnType<Product["api"]>;
	versionsOf(appId: string): Promise<string[]>;
	/** The answer to the update check of a device. */
	check(appId: string, defaultChannel: string, versionName?: string): Promise<UpdateAnswer>;
	/** The server knew every request that the CLI sent; at least so many were sent. */
	expectKnownRequests(least: number): void;
	stop(): Promise<void>;
}

type UpdateAnswer = Record<string, unknown> & { manifest?: { download_url: string; file_hash: string }[] };

/** Errors with which the server answers a request that it does not know. */
const UNKNOWN = ["invalid_request", "conflicting_parameters", "not_found", "method_not_allowed", "internal_error"];

export async function startCliScene(): Promise<CliScene> {
	const product = await startProduct({
		outboundService: (request) =>
			request.url === EXTERNAL_URL ? new Response(makeZip("external")) : new Response("nothing here", { status: 404 }),
	});
	const recorder = await startRecorder(product.url);
	const projectOf = (appId: string) => createCliProject(product.directory, recorder.url, appId);
	return {
		product,
		projectOf,
		async newProject() {
			const appId = product.newAppId();
			const uuid = await createProductApp(product, appId);
			return { cli: await projectOf(appId), appId, uuid };
		},
		admin: () => ["--apikey", product.adminKey],
		async createChannel(appId, channel = "production", fields = { public: true }) {
			const { status, body } = await product.api("POST", "/channel", { app_id: appId, channel, ...fields });
			expect(status, JSON.stringify(body)).toBe(201);
		},
		channelOf: (appId, channel) => product.api("GET", `/channel?app_id=${appId}&channel=${channel}`),
		versionsOf: async (appId) =>
			(await product.api("GET", `/bundle?app_id=${appId}`)).body.map((bundle: { name: string }) => bundle.name),
		async check(appId, defaultChannel, versionName = "builtin") {
			const { body } = await product.api("POST", "/updates", {
				app_id: appId,
				device_id: "b5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d61",
				version_name: versionName,
				version_build: "1.0.0",
				platform: "android",
				plugin_version: "8.51.23",
				is_emulator: false,
				is_prod: true,
				defaultChannel,
			});
			return body;
		},
		expectKnownRequests(least) {
			const unknown = recorder.requests
				.filter(({ status, error }) => status >= 500 || (error !== undefined && UNKNOWN.includes(error)))
				// Icons are not stored.
				.filter(({ path }) => !path.startsWith("/compat/capgo-cli/storage/v1/object/"));
			const ignored = recorder.requests.filter((request) => request.ignored !== undefined);
			expect(recorder.requests.length).toBeGreaterThan(least);
			expect(unknown).toEqual([]);
			expect(ignored.map((request) => `${request.method} ${request.path}: ${request.ignored}`)).toEqual([]);
		},
		async stop() {
			await recorder.stop();
			await product.stop();
		},
	};
}

/** Expects that the command succeeds; its output. */
export async function succeed(run: Promise<{ code: number | null; output: string }>): Promise<string> {
	const { code, output } = await run;
	expect(code, output).toBe(0);
	return output;
}
