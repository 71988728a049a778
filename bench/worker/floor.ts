/**
 * The floor of a cold check: a Worker without any library that reads the request, makes one D1
 * query and answers JSON.
 */
interface Bindings {
	readonly DB: D1Database;
}

export default {
	async fetch(request, { DB }) {
		const { app_id } = await request.json<{ app_id: string }>();
		const row = await DB.prepare("SELECT id, app_id, revision FROM apps WHERE app_id = ?").bind(app_id).first();
		return Response.json(row);
	},
} satisfies ExportedHandler<Bindings>;
