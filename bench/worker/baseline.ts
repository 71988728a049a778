/**
 * Baselines: the minimal Hono Worker for the same kind of request. No route may do less than its
 * name says.
 */
import { Hono } from "hono";

interface Bindings {
	readonly DB: D1Database;
	readonly BUCKET: R2Bucket;
}

const app = new Hono<{ Bindings: Bindings }>();

app.get("/bare", (c) => c.json({ version: "1.0.1", ok: true }));

app.post("/body", async (c) => {
	const { app_id } = await c.req.json<{ app_id: string }>();
	return c.json({ version: "1.0.1", app_id });
});

app.get("/row", async (c) => {
	const row = await c.env.DB.prepare("SELECT id, name FROM items WHERE id = ?")
		.bind(Number(c.req.query("id")))
		.first();
	return c.json(row);
});

/** A minimal checked write: one read that decides, then the row. */
app.post("/row", async (c) => {
	const { name } = await c.req.json<{ name: string }>();
	const allowed = await c.env.DB.prepare("SELECT id FROM items WHERE id = ?").bind(1).first();
	if (allowed === null) return c.json({ error: "permission_denied" }, 403);
	await c.env.DB.prepare("INSERT INTO items (name) VALUES (?)").bind(name).run();
	return c.json({ name });
});

/** A minimal upload: the bytes, then the row. */
app.put("/object", async (c) => {
	const key = crypto.randomUUID();
	await c.env.BUCKET.put(key, c.req.raw.body);
	await c.env.DB.prepare("INSERT INTO items (name) VALUES (?)").bind(key).run();
	return c.json({ stored: true });
});

export default app;
