/**
 * Lists and shows API keys. No response holds a secret, except the reveal of a key that was created
 * with `hashed: false`, which is audited.
 */
import * as v from "valibot";
import { orgsWhere } from "../../authz/decide";
import { openKey } from "../../authz/secrets";
import { apiKeyAsSeenBy, apiKeysPage, markRevealed, sealedKeyText } from "../../db/api-keys";
import { auditStatement } from "../../db/audit/entries";
import { UNUSED_DAYS } from "../../domain/defaults";
import { DAY_MS } from "../../domain/time";
import { invalidRequest } from "../../errors";
import { endpoint } from "../../http/endpoint";
import { pageBounds, pageReply } from "../../http/paging";
import { booleanText, itemsPerPage, optional, pageNumber, uuid } from "../../http/schemas";
import { secretGuards } from "./promoter-guards";
import { EXAMPLE_KEY, keyAnswer, keySchema, keyWithSecretSchema } from "./record";
import { refuseStrongerSecret } from "./rules";
import { boundKeyScope, keyNotFound } from "./scope";

export const listKeys = endpoint({
	method: "GET",
	path: "/apikey",
	tag: "API keys",
	summary: "List the API keys that the caller manages, and the calling key, oldest first",
	description: [
		`\`unused_for_days=${UNUSED_DAYS}\` lists the keys to review: created at least ${UNUSED_DAYS} days ago and not used since.`,
		"`last_used_at` is accurate to the minute and appears a few seconds after a use.",
	],
	access: {
		anyKey: "Lists the keys of organizations in which the caller holds org.manage_apikeys, and the calling key.",
	},
	query: v.object({
		page: pageNumber,
		limit: itemsPerPage,
		org_id: optional(uuid),
		unused_for_days: optional(
			v.pipe(
				v.string(),
				v.regex(/^[1-9]\d{0,3}$/, "must be a whole number of days from 1 to 9999"),
				v.transform(Number),
			),
		),
	}),
	response: v.array(keySchema),
	errors: [],
	example: { query: { page: "0" }, response: [EXAMPLE_KEY] },
	async handle({ db, principal, input, request, origin, nowMs }) {
		const { page, limit: size, org_id, unused_for_days } = input.query;
		const { limit, offset } = pageBounds(page, size);
		const filter = {
			orgIds: orgsWhere(principal, "org.manage_apikeys"),
			ownKeyId: principal.keyId ?? "",
			orgId: org_id,
			unusedSinceMs: unused_for_days === undefined ? undefined : nowMs - unused_for_days * DAY_MS,
		};
		const [keys] = await db.batch([apiKeysPage(filter, limit, offset)]);
		return pageReply({ request, origin }, page, keys.rows, (row) => keyAnswer(row, nowMs), size);
	},
});

export const getKey = endpoint({
	method: "GET",
	path: "/apikey/:id",
	tag: "API keys",
	summary: "Show one API key",
	description: [
		"`org_id` selects another organization in which the key has a binding; the response then shows the",
		"bindings in that organization.",
		"`reveal=true` adds the secret of a key created with",
		"`hashed: false`, if the key is no stronger than the caller.",
		"A reveal is audited; `revealed_at` and `revealed_by`",
		"(an account) show it until the key is regenerated.",
	],
	access: { permission: "org.manage_apikeys", scope: boundKeyScope },
	recentSignIn: ({ query }) => query.reveal === true,
	query: v.object({ reveal: optional(booleanText), org_id: optional(uuid) }),
	response: v.union([keySchema, keyWithSecretSchema]),
	errors: ["api_key_not_found"],
	example: { response: EXAMPLE_KEY },
	load: (input) => ({
		key: apiKeyAsSeenBy(input.query.org_id, input.params.id.toLowerCase()),
		sealed: sealedKeyText(input.params.id.toLowerCase()),
	}),
	async handle({ loaded, input, principal, db, deps, actor, nowMs, scope }) {
		const [row] = loaded.key;
		const sealed = loaded.sealed[0]?.key_ciphertext ?? null;
		if (row === undefined) throw keyNotFound();
		if (input.query.reveal !== true) return keyAnswer(row, nowMs);
		if (row.org_id !== scope.orgId) {
			throw invalidRequest([{ path: "reveal", message: "is allowed in the key's own organization only; omit it" }]);
		}
		if (sealed === null) return keyAnswer(row, nowMs);
		refuseStrongerSecret(principal, row);
		await db.batch([
			...secretGuards(principal, row),
			markRevealed(scope.orgId, row.id, principal.userId, nowMs),
			auditStatement(actor, nowMs, {
				orgId: scope.orgId,
				action: "api_key.reveal",
				target: { type: "api_key", id: row.id, name: row.name },
			}),
		]);
		const revealed = { ...row, revealed_at_ms: nowMs, revealed_by: principal.userId };
		return { ...keyAnswer(revealed, nowMs), key: await openKey(sealed, row.id, deps.config.secrets) };
	},
});
