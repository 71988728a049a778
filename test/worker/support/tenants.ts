/**
 * Two tenants for tests of single statements: each has a row of everything that the service stores
 * (tenant-rows.ts), under the same names as the other, so that a statement without a condition on
 * tenant, id or deletion finds too much. A third tenant holds rows that point into the two, which
 * no request can create: only they show the conditions that stay within one app.
 */
import type { AppId, ChannelId, OrgId } from "../../../src/authz/decide";

export interface TenantRows {
	readonly name: "a" | "b";
	readonly org: OrgId;
	/** A deleted organization of the same person. */
	readonly deletedOrg: OrgId;
	readonly app: AppId;
	/** Has nothing in it. */
	readonly emptyApp: AppId;
	/** An app of the deleted organization. */
	readonly deletedApp: AppId;
	/** Has no row any more; its reports are still to be deleted. */
	readonly removedApp: AppId;
	readonly publicAppId: string;
	readonly deletedPublicAppId: string;
	readonly user: string;
	readonly email: string;
	/** Bound at home, on the other tenant, and in this one's deleted organization. */
	readonly key: string;
	readonly keyHash: string;
	readonly previousKeyHash: string;
	/** Public: serves `stable`, and rolls `next` out. */
	readonly channel: ChannelId;
	/** Serves nothing. */
	readonly beta: ChannelId;
	/** 1.0.0, with a manifest. */
	readonly stable: number;
	/** 1.1.0. */
	readonly next: number;
	/** 1.2.0, which only a channel of the third tenant points to. */
	readonly unused: number;
	/** 1.0.0 as well, and older. */
	readonly deleted: number;
	/** 2.0.0. */
	readonly pending: number;
	readonly rollout: string;
	readonly endedRollout: string;
	/** The rollout on `beta`. */
	readonly pausedRollout: string;
	readonly upload: string;
	/**
	 * A session of `user`, who has another one as well; the hash of its token is `hash-of-` and this.
	 */
	readonly session: string;
	readonly invitation: string;
	readonly tokenHash: string;
	/** When devices were last seen. */
	readonly seenAtMs: number;
}

function tenantOf(name: "a" | "b"): TenantRows {
	const first = name === "a" ? 100 : 200;
	return {
		name,
		org: `org-${name}` as OrgId,
		deletedOrg: `deleted-org-${name}` as OrgId,
		app: `app-${name}` as AppId,
		emptyApp: `empty-app-${name}` as AppId,
		deletedApp: `deleted-app-${name}` as AppId,
		removedApp: `removed-app-${name}` as AppId,
		publicAppId: `com.example.${name}`,
		deletedPublicAppId: `com.example.deleted.${name}`,
		user: `user-${name}`,
		email: `${name}@example.com`,
		key: `key-${name}`,
		keyHash: `hash-${name}`,
		previousKeyHash: `previous-${name}`,
		channel: (first + 1) as ChannelId,
		beta: (first + 2) as ChannelId,
		stable: first + 11,
		next: first + 12,
		unused: first + 13,
		deleted: first + 10,
		pending: first + 15,
		rollout: `rollout-${name}`,
		endedRollout: `ended-${name}`,
		pausedRollout: `paused-${name}`,
		upload: `upload-${name}`,
		session: `session-${name}`,
		invitation: `invitation-${name}`,
		tokenHash: `token-${name}`,
		seenAtMs: first,
	};
}

export const A = tenantOf("a");
export const B = tenantOf("b");
/** Names that no row has. */
export const ABSENT = Object.fromEntries(
	Object.entries(A).map(([name, value]) => [name, typeof value === "number" ? 987_654_321 : `absent-${name}`]),
) as unknown as TenantRows;
/** A tenant beside a thing that it does not have. */
export const WRONG_PAIRS: readonly (readonly [of: TenantRows, thing: TenantRows])[] = [
	[A, B],
	[B, A],
	[B, ABSENT],
];
export const otherThan = (of: TenantRows) => (of.name === "a" ? B : A);
/** Ids of the third tenant. */
export const CROSSED = {
	org: "org-x" as OrgId,
	app: "app-x" as AppId,
	publicAppId: "com.example.x",
	key: "key-x",
	channel: 901 as ChannelId,
};
/** Days since 1970-01-01 of the statistics. */
export const DAY = 20_000;
export const ADMINISTERING = ["org_admin"] as const;

/** Devices report this of the keys of both tenants. */
export const KEY_ID = "public-key-of-tenant";
