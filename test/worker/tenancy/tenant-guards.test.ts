/**
 * Each guard holds for one thing in one state. Every condition that holds has neighbours that
 * differ in one value and do not hold. The guards are asked about the second of two tenants, whose
 * things have the same names.
 */
import { type Expression, type SqlBool, sql } from "kysely";
import { beforeAll, describe, expect, test } from "vitest";
import { manifestIsStored } from "../../../src/compat/capgo-cli/queries";
import { apiKeyExists, isBoundIn, policiesElsewhere, policiesElsewhereAre } from "../../../src/db/api-keys";
import { appIsLive } from "../../../src/db/apps";
import { bundleIsLive, bundleIsPending, bundleIsReady } from "../../../src/db/bundles";
import {
	bundleUnusedExceptBy,
	channelExists,
	channelPlatformsAre,
	channelStillPointsTo,
} from "../../../src/db/channels";
import { invitationIs } from "../../../src/db/invitations";
import { type Membership, membershipByEmail, membershipIs } from "../../../src/db/members";
import { keysUnderPolicy, someKeyStillAdministers } from "../../../src/db/organizations";
import { type ActiveRolloutRow, activeRollout, rolloutUnchanged } from "../../../src/db/rollouts";
import { signingKeyExists } from "../../../src/db/signing-keys";
import { uploadExists, uploadIsOpen } from "../../../src/db/uploads";
import { insertTenants } from "../support/tenant-rows";
import { holds, rowsOfAll } from "../support/tenant-statements";
import { A, ADMINISTERING, B, type TenantRows, WRONG_PAIRS } from "../support/tenants";
import { NOW_MS } from "../support/world";
import { GUARDS_OF_CONTENTS, storedManifest } from "./guards-of-contents";
import { GUARDS_OF_PEOPLE, READ_INVITATION } from "./guards-of-people";

/** Conditions on a tenant's own thing. */
const OWN: Readonly<Record<string, (of: TenantRows, thing: TenantRows) => Expression<SqlBool>>> = {
	bundleIsReady: (of, { stable }) => bundleIsReady(of.app, stable),
	bundleIsLive: (of, { stable }) => bundleIsLive(of.app, stable),
	bundleIsPending: (of, { pending }) => bundleIsPending(of.app, pending),
	channelExists: (of, { channel }) => channelExists(of.app, channel),
	channelStillPointsTo: (of, { channel, stable, next }) => channelStillPointsTo(of.app, channel, stable, next),
	channelPlatformsAre: (of, { channel }) =>
		channelPlatformsAre(of.app, channel, { public: 1, ios: 1, android: 1, electron: 1 }),
	"not bundleUnusedExceptBy": (of, { stable }) => sql<boolean>`NOT ${bundleUnusedExceptBy(of.app, stable, 0)}`,
	uploadExists: (of, { upload }) => uploadExists(of.app, upload),
	uploadIsOpen: (of, { upload }) => uploadIsOpen(of.app, upload),
	manifestIsStored: (of, { name, key }) => manifestIsStored(of.app, storedManifest(`only-${name}`), key),
	invitationIs: (of, { invitation }) => invitationIs(of.org, { ...READ_INVITATION, id: invitation }),
	apiKeyExists: (of, { key }) => apiKeyExists(of.org, key),
	isBoundIn: (of, { name }) => isBoundIn(of.org, `key-shared-${name}`),
	appIsLive: (of, { app }) => appIsLive(of.org, app),
	signingKeyExists: (of, { name }) => signingKeyExists(of.org, `signing-${name}`),
};

describe("guards", () => {
	beforeAll(insertTenants);

	test.each(Object.entries(OWN))("%s holds only for the tenant's object", async (_, condition) => {
		expect(await holds(condition(B, B)), "the control").toBe(true);
		for (const [of, thing] of WRONG_PAIRS) {
			expect(await holds(condition(of, thing)), `${of.org} with ${thing.org}`).toBe(false);
		}
	});

	test.each(Object.entries({ ...GUARDS_OF_CONTENTS, ...GUARDS_OF_PEOPLE }))(
		"%s holds only for the expected state",
		async (_, conditions) => {
			const { yes, no } = conditions();
			for (const [index, condition] of yes.entries()) expect(await holds(condition), `${index} of yes`).toBe(true);
			for (const [index, condition] of no.entries()) expect(await holds(condition), `${index} of no`).toBe(false);
		},
	);

	test("with a row as argument hold only for exactly that row", async () => {
		const [[member] = [], [standing] = [], policies, keys] = await rowsOfAll([
			membershipByEmail(B.org, B.email, NOW_MS),
			activeRollout(B.publicAppId, "production", NOW_MS),
			policiesElsewhere(B.key),
			keysUnderPolicy(B.org, ADMINISTERING, [], NOW_MS),
		]);
		const [membership, row] = [member as unknown as Membership, standing as unknown as ActiveRolloutRow];
		expect(await holds(membershipIs(B.org, membership))).toBe(true);
		expect(await holds(membershipIs(A.org, membership))).toBe(false);
		expect(await holds(membershipIs(B.org, { ...membership, user_id: A.user }))).toBe(false);
		expect(await holds(rolloutUnchanged(row))).toBe(true);
		const changes: Partial<ActiveRolloutRow>[] = [
			{ app_id: A.app },
			{ id: B.beta },
			{ rollout_id: B.endedRollout },
			{ step_at_ms: 7 },
		];
		for (const change of changes) {
			expect(await holds(rolloutUnchanged({ ...row, ...change })), JSON.stringify(change)).toBe(false);
		}
		expect(await holds(policiesElsewhereAre(policies as never))).toBe(true);
		expect(await holds(someKeyStillAdministers(B.org, keys as never, ADMINISTERING, NOW_MS))).toBe(true);
	});
});
