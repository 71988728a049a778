/**
 * One request for every endpoint about bundles and their files, those of the stock CLI's uploads
 * included.
 */
import {
	bundleThing,
	byAdmin,
	fresh,
	freshVersion,
	madeChannel,
	type Prepare,
	type PreparedRequest,
	registered,
	registeredProcedure,
	tusHeaders,
	uploaded,
} from "./request-parts";
import type { Scene, TestApp } from "./scene";
import { bundleOf } from "./zip";

/** An empty file of the delta store, which is whole as soon as it is begun. */
async function storedFile(world: Scene, app: TestApp, creators = byAdmin(world)): Promise<string> {
	// The hash in the path is that of a file without bytes.
	const hash = "cd372fb85148700fa88095e3492d3f9f5beb43e555e5ff26d95f5a6adc36f8e6";
	const path = `orgs/${world.orgId}/apps/${app.appId}/delta/${hash}_${fresh("empty")}`;
	const { status } = await world.request("POST", "/files/upload/attachments", {
		key: creators.bundle,
		headers: { "tus-resumable": "1.0.0", "upload-length": "0", "upload-metadata": `filename ${btoa(path)}` },
	});
	if (status !== 201) throw new Error("file not stored");
	return path;
}

async function begunUpload(world: Scene, app: TestApp, creators = byAdmin(world)): Promise<PreparedRequest> {
	const version = await registered(world, app, creators);
	const { headers, status } = await world.request("POST", "/files/upload/attachments", {
		key: creators.bundle,
		headers: tusHeaders(world, app, version, 130),
	});
	if (status !== 201) throw new Error("upload not begun");
	const { pathname } = new URL(headers.get("location") ?? "");
	return { path: pathname, thing: bundleThing(app, pathname.split("/").at(-1) ?? "", version) };
}

export const BUNDLE_REQUESTS: Readonly<Record<string, Prepare>> = {
	"GET /bundle": async (_, app) => ({ path: "/bundle", query: { app_id: app.appId } }),
	"GET /bundle/difference": async (world, app, creators) => {
		const { version } = await uploaded(world, app, creators);
		return {
			path: "/bundle/difference",
			query: { app_id: app.appId, version, base: version },
			thing: bundleThing(app, version),
		};
	},
	"GET /bundle/list": async (_, app) => ({ path: "/bundle/list", query: { app_id: app.appId } }),
	"GET /bundle/files": async (world, app, creators) => {
		const { version } = await uploaded(world, app, creators);
		return { path: "/bundle/files", query: { app_id: app.appId, version }, thing: bundleThing(app, version) };
	},
	"GET /bundle/download": async (world, app, creators) => {
		const { version } = await uploaded(world, app, creators);
		return { path: "/bundle/download", query: { app_id: app.appId, version }, thing: bundleThing(app, version) };
	},
	"POST /bundle/metadata": async (world, app, creators) => {
		const { version } = await uploaded(world, app, creators);
		const body = { app_id: app.appId, version, comment: fresh("notes") };
		return { path: "/bundle/metadata", body, thing: bundleThing(app, version) };
	},
	"GET /bundle/compatibility": async (world, app, creators) => {
		const { version } = await uploaded(world, app, creators);
		const channel = fresh("pr-compared");
		await madeChannel(world, app, channel, creators);
		return {
			path: "/bundle/compatibility",
			query: { app_id: app.appId, version, channel },
			thing: bundleThing(app, version),
		};
	},
	"POST /bundle": async (_, app) => ({ path: "/bundle", body: { app_id: app.appId, version: freshVersion() } }),
	"POST /bundle/complete": async (world, app, creators) => {
		const { version } = await uploaded(world, app, creators);
		return { path: "/bundle/complete", body: { app_id: app.appId, version }, thing: bundleThing(app, version) };
	},
	"PUT /bundle": async (world, app, creators) => {
		const { id, version } = await uploaded(world, app, creators);
		const channel_id = await madeChannel(world, app, fresh("pr-target"), creators);
		return {
			path: "/bundle",
			body: { app_id: app.appId, version_id: id, channel_id },
			thing: bundleThing(app, id, version),
		};
	},
	"DELETE /bundle": async (world, app, creators) => {
		const { version } = await uploaded(world, app, creators);
		return { path: "/bundle", query: { app_id: app.appId, version }, thing: bundleThing(app, version) };
	},
	"POST /files/upload/attachments": async (world, app) => ({
		path: "/files/upload/attachments",
		headers: {
			...tusHeaders(world, app, "unused", 5),
			"upload-metadata": `filename ${btoa(`orgs/${world.orgId}/apps/${app.appId}/delta/${fresh("file")}`)}`,
		},
	}),
	"GET /files/upload/attachments/:id": async (world, app, creators) => ({
		...(await begunUpload(world, app, creators)),
		headers: { "tus-resumable": "1.0.0" },
	}),
	"PATCH /files/upload/attachments/:id": async (world, app, creators) => ({
		...(await begunUpload(world, app, creators)),
		headers: {
			"tus-resumable": "1.0.0",
			"upload-offset": "0",
			"content-type": "application/offset+octet-stream",
			"content-length": "130",
		},
		rawBody: bundleOf(130),
	}),
	"POST /private/events": async () => ({ path: "/private/events", body: { event: "x" } }),
	"POST /files/upload_link": registeredProcedure("/files/upload_link"),
	"POST /private/upload_link": registeredProcedure("/private/upload_link"),
	"GET /files/read/attachments/:path{.+}": async (world, app, creators) => ({
		path: `/files/read/attachments/${await storedFile(world, app, creators)}`,
	}),
	"POST /private/set_manifest": async (world, app, creators) => {
		const manifest = [
			{ file_name: "index.html", s3_path: await storedFile(world, app, creators), file_hash: "ab".repeat(32) },
		];
		const name = await registered(world, app, creators);
		return {
			path: "/private/set_manifest",
			body: { app_id: app.appId, name, manifest },
			thing: bundleThing(app, name),
		};
	},
	"POST /private/finalize_bundle_upload": async (world, app, creators) => {
		const { version } = await uploaded(world, app, creators);
		const body = { app_id: app.appId, name: version };
		return { path: "/private/finalize_bundle_upload", body, thing: bundleThing(app, version) };
	},
	"DELETE /private/delete_failed_version": async (world, app, creators) => {
		const name = await registered(world, app, creators);
		return {
			path: "/private/delete_failed_version",
			query: { app_id: app.appId, name },
			thing: bundleThing(app, name),
		};
	},
};
