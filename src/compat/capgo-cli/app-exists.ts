/**
 * The stock CLI's question whether an app exists, on the path of its own; the answer is the public API's.
 */
import { endpoint } from "../../api/endpoint";
import { getApp } from "../../api/routes/app";
import { PREFIX } from "./postgrest";

export const appExists = endpoint({
	...(getApp as unknown as Parameters<typeof endpoint>[0]),
	path: `${PREFIX}/functions/v1/app/:app_id`,
	tag: "Stock CLI",
	summary: "Show one app, as GET /app/:app_id does",
});
