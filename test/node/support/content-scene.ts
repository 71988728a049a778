/**
 * Content that breaks layouts: names of 70 letters without a space, names written from right to
 * left, and 10,000 bundles and changes. The API refuses some of these names; the screens must not
 * depend on that.
 */
import type { Page } from "playwright-core";
import type { Stage } from "./dashboard";

const LONG = "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtens";
const RIGHT_TO_LEFT = "متجر الإلكترونيات الرئيسي في الرياض";
const MANY = 10_000;
export const EMPTY_APP = "com.example.nothing";

export async function fillWithContent({ product, app, appUuid }: Stage): Promise<void> {
	const { orgId } = product;
	const done = async (method: string, path: string, body: unknown) => {
		const answer = await product.api(method, path, body);
		if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`);
	};
	await done("POST", "/organization", { orgId, name: LONG });
	await done("POST", "/app", { app_id: EMPTY_APP, name: RIGHT_TO_LEFT, owner_org: orgId });
	await done("PUT", `/app/${app}`, { name: LONG });
	await done("POST", "/channel", { app_id: app, channel: LONG, version: "1.0.0" });
	await done("POST", "/channel", { app_id: app, channel: "right-to-left", version: "1.0.0" });
	const bindings = [{ scope_type: "org", role_name: "org_member", org_id: orgId }];
	const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
	await done("POST", "/apikey", { name: LONG, bindings, hashed: true, expires_at: inDays(3) });
	await done("POST", "/apikey", { name: RIGHT_TO_LEFT, bindings, hashed: true, expires_at: inDays(200) });
	await done("POST", "/organization/members", { orgId, email: `${LONG.slice(0, 60)}@example.com`, role: "org_member" });
	await done("POST", "/organization/groups", { orgId, name: LONG });
	for (const description of [LONG, RIGHT_TO_LEFT])
		await done("POST", "/webhook", { orgId, url: `http://127.0.0.1:9/${LONG}`, description });
	for (const [index, custom_id] of [LONG, RIGHT_TO_LEFT].entries()) {
		const device_id = `c5a3f9d2-6a60-4f2e-9a57-9f1f1f5a2d6${index}`;
		const build = { version_name: "builtin", version_build: "1.0.0", plugin_version: "8.51.23", is_prod: true };
		await done("POST", "/updates", { app_id: app, device_id, platform: "ios", custom_id, ...build });
	}
	const db = await product.running.miniflare.getD1Database("DB");
	const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${MANY})`;
	await db.batch([
		db.prepare("UPDATE channels SET name = ? WHERE name = 'right-to-left'").bind(RIGHT_TO_LEFT),
		db
			.prepare(
				`${numbers} INSERT INTO bundles (app_id, name, status, storage_provider, external_url, size_bytes, comment, created_by,
					created_at_ms, updated_at_ms)
				SELECT ?1, '3.0.' || i, 'ready', 'external', 'https://files.example.com/' || i, i, ?2, 'CI', ?3 - i, ?3 - i FROM n`,
			)
			.bind(appUuid, LONG, Date.now()),
		db
			.prepare(
				`${numbers} INSERT INTO audit_log (org_id, at_ms, actor_type, actor_id, actor_name, action, target_type, target_id, target_name,
					request_id, app_uuid, app_id, details)
				SELECT ?1, ?2 - i * 60000, 'user', 'u' || (i % 3), ?3, 'bundle.delete', 'bundle', i, ?4, 'r' || i, ?5, ?6, '{}' FROM n`,
			)
			.bind(orgId, Date.now(), RIGHT_TO_LEFT, LONG, appUuid, app),
	]);
}

/**
 * Words of at most 15 characters, up to a space, a hyphen or a slash, that a cell breaks in two or
 * does not show: the cell is narrower than its word. Longer ones may be broken or cut.
 */
export function narrowCells(page: Page): Promise<string[]> {
	return page.evaluate(NARROW_CELLS);
}

const NARROW_CELLS = `(() => {
	const found = new Set();
	for (const cell of document.querySelectorAll("main :is(td, th, dt, dd, .entry-text, .entry-facts > *, .badge, .day-head, h1, h2)")) {
		if (!cell.checkVisibility({ visibilityProperty: true })) continue;
		const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
		for (let text = texts.nextNode(); text !== null; text = texts.nextNode()) {
			const parent = text.parentElement;
			if (parent.closest(".sr, pre, svg, [hidden]") !== null || !parent.checkVisibility()) continue;
			let isFirst = true;
			for (const { 0: word, index } of text.data.matchAll(/[^\\s\\-/]+/g)) {
				if (word.length > 15) {
					isFirst = false;
					continue;
				}
				const range = document.createRange();
				range.setStart(text, index);
				range.setEnd(text, index + word.length);
				const boxes = [...range.getClientRects()].filter(({ width }) => width > 0);
				if (boxes.length === 0) continue;
				const where = cell.tagName.toLowerCase() + " " + JSON.stringify(cell.textContent.slice(0, 40)) + ": " + word;
				if (boxes.some(({ top }) => Math.abs(top - boxes[0].top) > 4)) found.add(where + " is broken");
				const cut = parent.closest(".cut, .named > .link, .entry-text, .entry-facts > *, td, th");
				const end = cut === null ? Infinity : cut.getBoundingClientRect().right + 1;
				if (isFirst && cut !== null && cut.contains(text) && boxes[0].right > end && cut.textContent.trim().startsWith(text.data.trim()))
					found.add(where + " is cut");
				isFirst = false;
			}
		}
	}
	return [...found];
})()`;
