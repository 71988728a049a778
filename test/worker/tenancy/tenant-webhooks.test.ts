/**
 * Statements about webhooks and deliveries: each reads or writes the rows of its tenant and no
 * others.
 */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { attemptsOf, insertAttempt } from "../../../src/db/webhook-attempts";
import {
	claimDeliveries,
	deliveriesOf,
	deliveryById,
	deliveryCanRun,
	deliveryWaits,
	giveUpDeliveries,
	LEASE_MS,
	replayDelivery,
	stopDelivery,
} from "../../../src/db/webhook-deliveries";
import {
	deleteWebhook,
	updateWebhook,
	webhookById,
	webhookExists,
	webhooksOf,
	webhookTarget,
	webhookTargetOfDelivery,
	webhookTargetOfNew,
} from "../../../src/db/webhooks";
import { insertTenants } from "../support/tenant-rows";
import { type Change, expectChanges, expectReads, holds, type Read, rowsOfAll } from "../support/tenant-statements";
import { B, otherThan, type TenantRows, WRONG_PAIRS } from "../support/tenants";

const ALL = [100, 0] as const;
const hook = ({ name }: TenantRows) => `webhook-${name}`;

const READS: Readonly<Record<string, Read>> = {
	webhooksOf: [(of) => webhooksOf(of.org), (of) => [{ id: hook(of), public_app_id: of.publicAppId }]],
	webhookById: [(of) => webhookById(of.org, hook(of)), (of) => [{ id: hook(of) }]],
	"webhookById of another tenant's webhook": [(of) => webhookById(of.org, hook(otherThan(of))), () => []],
	"webhookById of a person's mail settings": [(of) => webhookById(of.org, `mail-${of.name}`), () => []],
	"webhooksOf an app": [(of) => webhooksOf(of.org, of.publicAppId), (of) => [{ id: hook(of) }]],
	"webhooksOf another tenant's app": [(of) => webhooksOf(of.org, otherThan(of).publicAppId), () => []],
	webhookTarget: [(of) => webhookTarget(of.org, hook(of)), (of) => [{ org_id: of.org, app_uuid: of.app }]],
	"webhookTarget of another tenant's webhook": [(of) => webhookTarget(of.org, hook(otherThan(of))), () => []],
	"webhookTarget of a person's mail settings": [(of) => webhookTarget(of.org, `mail-${of.name}`), () => []],
	webhookTargetOfDelivery: [
		(of) => webhookTargetOfDelivery(of.org, `delivery-${of.name}`),
		(of) => [{ org_id: of.org, app_uuid: of.app }],
	],
	"webhookTargetOfDelivery of another tenant's delivery": [
		(of) => webhookTargetOfDelivery(of.org, `delivery-${otherThan(of).name}`),
		() => [],
	],
	webhookTargetOfNew: [
		(of) => webhookTargetOfNew(of.org, of.publicAppId),
		(of) => [{ org_id: of.org, app_uuid: of.app }],
	],
	"webhookTargetOfNew of the organization": [
		(of) => webhookTargetOfNew(of.org, undefined),
		(of) => [{ org_id: of.org, app_uuid: null }],
	],
	"webhookTargetOfNew of another tenant's app": [
		(of) => webhookTargetOfNew(of.org, otherThan(of).publicAppId),
		() => [],
	],
	"webhookTargetOfNew of a deleted organization": [(of) => webhookTargetOfNew(of.deletedOrg, undefined), () => []],
	deliveriesOf: [
		(of) => deliveriesOf(of.org, hook(of), [], ...ALL),
		(of) => [{ id: `delivery-${of.name}`, type: "channel.promoted" }],
	],
	"deliveriesOf another tenant's webhook": [(of) => deliveriesOf(of.org, hook(otherThan(of)), [], ...ALL), () => []],
	deliveryById: [(of) => deliveryById(of.org, `delivery-${of.name}`), (of) => [{ id: `delivery-${of.name}` }]],
	attemptsOf: [(of) => attemptsOf(of.org, `delivery-${of.name}`), (of) => [{ delivery_id: `delivery-${of.name}` }]],
	"attemptsOf another tenant's delivery": [(of) => attemptsOf(of.org, `delivery-${otherThan(of).name}`), () => []],
	"deliveryById of another tenant's delivery": [
		(of) => deliveryById(of.org, `delivery-${otherThan(of).name}`),
		() => [],
	],
};

describe("reads of webhooks", () => {
	beforeAll(insertTenants);
	test.each(Object.entries(READS))("%s returns only the tenant's rows", (_, read) => expectReads(read));

	test("claimDeliveries returns only deliveries of the webhook, even if another tenant uses the same claim", async () => {
		const [, claimed] = claimDeliveries(hook(B), "same", 0, 10);
		const [rows] = await rowsOfAll([claimed]);
		expect(rows).toMatchObject([{ id: "delivery-b", org_id: B.org, sealed: "sealed-b" }]);
	});
});

const ATTEMPT = {
	at_ms: 5,
	shown_url: "https://hooks.example.com/",
	is_of_records: 0 as const,
	duration_ms: 1,
	status_code: null,
	error: null,
	answer: null,
};

const WRITES: Readonly<Record<string, Change>> = {
	updateWebhook: [
		(of, thing) => updateWebhook(of.org, hook(thing), { description: "changed" }),
		["~ webhooks webhook-b description=changed"],
	],
	deleteWebhook: [
		(of, thing) => deleteWebhook(of.org, hook(thing)),
		["- webhook_attempts delivery-b 1", "- webhook_deliveries delivery-b", "- webhooks webhook-b"],
	],
	insertAttempt: [
		() => insertAttempt({ ...ATTEMPT, delivery_id: "delivery-b", number: 1 }),
		["~ webhook_attempts delivery-b 1 at_ms=5"],
	],
	replayDelivery: [
		(of, thing) => replayDelivery(of.org, `delivery-${thing.name}`, 5),
		["~ webhook_deliveries delivery-b next_attempt_at_ms=5 claim="],
	],
	stopDelivery: [
		(of, thing) => stopDelivery(of.org, `delivery-${thing.name}`),
		["~ webhook_deliveries delivery-b state=stopped next_attempt_at_ms="],
	],
	claimDeliveries: [
		() => [...claimDeliveries(hook(B), "claim", 5, 10)],
		[`~ webhook_deliveries delivery-b attempts=1 next_attempt_at_ms=${5 + LEASE_MS} claim=claim last_attempt_at_ms=5`],
	],
	giveUpDeliveries: [
		() => [
			updateWebhook(B.org, hook(B), { disabled_at_ms: 5, disabled_reason: "requested" }),
			giveUpDeliveries(hook(B)),
		],
		[
			"~ webhook_deliveries delivery-b state=failed next_attempt_at_ms= error=the webhook was disabled",
			"~ webhooks webhook-b disabled_at_ms=5 disabled_reason=requested",
		],
	],
};

describe("writes to webhooks", () => {
	beforeEach(insertTenants);
	test.each(Object.entries(WRITES))("%s changes only the expected rows", (_, change) => expectChanges(change));
});

const GUARDS = {
	webhookExists: (of: TenantRows, thing: TenantRows) => webhookExists(of.org, hook(thing)),
	deliveryCanRun: (of: TenantRows, { name }: TenantRows) => deliveryCanRun(of.org, `delivery-${name}`),
	deliveryWaits: (of: TenantRows, { name }: TenantRows) => deliveryWaits(of.org, `delivery-${name}`),
};

describe("guards on webhooks", () => {
	beforeAll(insertTenants);
	test.each(Object.entries(GUARDS))("%s holds only for the tenant's object", async (_, condition) => {
		expect(await holds(condition(B, B)), "the control").toBe(true);
		for (const [of, thing] of WRONG_PAIRS) expect(await holds(condition(of, thing))).toBe(false);
	});
});
