/** Dry runs: what a change would delete or end. They are queries, because they change nothing. */
import { keepPreviousData, type UseQueryResult, useQuery } from "@tanstack/react-query";
import { type AnswerOf, ask, type RequestOf } from "./api";

const NEVER_KEPT = { staleTime: 0, gcTime: 0, retry: false } as const;

function usePlan<Plan>(key: readonly unknown[], queryFn: () => Promise<Plan>): UseQueryResult<Plan, Error> {
	return useQuery<Plan, Error>({ queryKey: ["dry run", ...key], queryFn, ...NEVER_KEPT });
}

export function useRemovalPlan(
	orgId: string,
	email: string,
): UseQueryResult<AnswerOf<"DELETE /organization/members">, Error> {
	return usePlan(["member", orgId, email], () =>
		ask("DELETE /organization/members", { query: { orgId, email, dry_run: "true" } }),
	);
}

/**
 * The member's keys that would lose permissions with the role. Sends nothing while `role` is
 * undefined.
 */
export function useRolePlan(
	orgId: string,
	email: string,
	role: RequestOf<"PUT /organization/members">["body"]["role"] | undefined,
): UseQueryResult<AnswerOf<"PUT /organization/members"> | null, Error> {
	return usePlan(["role", orgId, email, role], async () =>
		role === undefined ? null : ask("PUT /organization/members", { body: { orgId, email, role, dry_run: true } }),
	);
}

/**
 * The permissions that a member would gain with a role on an app or a channel. Sends nothing while
 * the form is incomplete.
 */
export function useMemberGrantPlan(
	body: RequestOf<"POST /organization/members/bindings">["body"] | undefined,
): UseQueryResult<AnswerOf<"POST /organization/members/bindings"> | null, Error> {
	return usePlan(["member role", body], async () =>
		body === undefined ? null : ask("POST /organization/members/bindings", { body: { ...body, dry_run: true } }),
	);
}

export function useMemberRevocationPlan(
	orgId: string,
	id: string,
): UseQueryResult<AnswerOf<"DELETE /organization/members/bindings">, Error> {
	return usePlan(["member role", orgId, id], () =>
		ask("DELETE /organization/members/bindings", { query: { orgId, id, dry_run: "true" } }),
	);
}

/**
 * The holders of a custom role and what its change does to each. Sends nothing while the
 * permissions are unchanged.
 */
export function useRoleChangePlan(
	orgId: string,
	name: string,
	permissions: RequestOf<"PUT /organization/roles">["body"]["permissions"],
): UseQueryResult<AnswerOf<"PUT /organization/roles"> | null, Error> {
	return usePlan(["role change", orgId, name, permissions], async () =>
		permissions === undefined
			? null
			: ask("PUT /organization/roles", { body: { orgId, name, permissions, dry_run: true } }),
	);
}

/** @param replacement empty: the holders get no other role */
export function useRoleDeletionPlan(
	orgId: string,
	name: string,
	replacement: string,
): UseQueryResult<AnswerOf<"DELETE /organization/roles">, Error> {
	const query = { orgId, name, dry_run: "true" as const, ...(replacement === "" ? {} : { replace_with: replacement }) };
	return useQuery({
		queryKey: ["dry run", "role deletion", query],
		queryFn: () => ask("DELETE /organization/roles", { query }),
		placeholderData: keepPreviousData,
		...NEVER_KEPT,
	});
}

type GroupGrant = RequestOf<"POST /organization/groups/:id/bindings">["body"];

/** The number of people who would get the role. Sends nothing while the form is incomplete. */
export function useGroupGrantPlan(
	id: string,
	body: GroupGrant | undefined,
): UseQueryResult<AnswerOf<"POST /organization/groups/:id/bindings"> | null, Error> {
	return usePlan(["group role", id, body], async () =>
		body === undefined
			? null
			: ask("POST /organization/groups/:id/bindings", {
					params: { id },
					body: { ...body, dry_run: true },
				}),
	);
}

export function useGroupRevocationPlan(
	id: string,
	binding_id: string,
): UseQueryResult<AnswerOf<"DELETE /organization/groups/:id/bindings/:binding_id">, Error> {
	return usePlan(["group role", id, binding_id], () =>
		ask("DELETE /organization/groups/:id/bindings/:binding_id", {
			params: { id, binding_id },
			query: { dry_run: "true" },
		}),
	);
}

/** The roles that a person would get by the group. Sends nothing while `email` is empty. */
export function useGroupAdditionPlan(
	id: string,
	email: string,
): UseQueryResult<AnswerOf<"POST /organization/groups/:id/members"> | null, Error> {
	return usePlan(["group member", id, email], async () =>
		email === ""
			? null
			: ask("POST /organization/groups/:id/members", {
					params: { id },
					body: { email, dry_run: true },
				}),
	);
}

export function useGroupRemovalPlan(
	id: string,
	user_id: string,
): UseQueryResult<AnswerOf<"DELETE /organization/groups/:id/members/:user_id">, Error> {
	return usePlan(["group removal", id, user_id], () =>
		ask("DELETE /organization/groups/:id/members/:user_id", {
			params: { id, user_id },
			query: { dry_run: "true" },
		}),
	);
}

export function useGroupDeletionPlan(id: string): UseQueryResult<AnswerOf<"DELETE /organization/groups/:id">, Error> {
	return usePlan(["group", id], () =>
		ask("DELETE /organization/groups/:id", { params: { id }, query: { dry_run: "true" } }),
	);
}

/** The keys and channels that other policies affect. Sends nothing while they are unchanged. */
export function useOrganizationPlan(
	body: RequestOf<"POST /organization">["body"] | undefined,
): UseQueryResult<AnswerOf<"POST /organization"> | null, Error> {
	return usePlan(["policies", body], async () =>
		body === undefined ? null : ask("POST /organization", { body: { ...body, dry_run: true } }),
	);
}

export function useOrganizationDeletionPlan(orgId: string): UseQueryResult<AnswerOf<"DELETE /organization">, Error> {
	return usePlan(["organization", orgId], () => ask("DELETE /organization", { query: { orgId, dry_run: "true" } }));
}

export function useAccountDeletionPlan(): UseQueryResult<AnswerOf<"DELETE /account">, Error> {
	return usePlan(["account"], () => ask("DELETE /account", { query: { dry_run: "true" } }));
}

/** The dry run's answer, for endpoints whose deletion answers something else. */
type PlanOf<Answer> = Extract<Answer, { readonly dry_run: true }>;
type BundlesPlan = PlanOf<AnswerOf<"DELETE /bundle">>;

function planIn<Answer extends object>(answer: Answer): PlanOf<Answer> {
	if ("dry_run" in answer) return answer as PlanOf<Answer>;
	throw new Error("The server did not describe what would be deleted.");
}

/** The plan without the bundle stays visible while the plan with it loads. */
export function useChannelDeletionPlan(
	appId: string,
	channel: string,
	withBundle: boolean,
): UseQueryResult<PlanOf<AnswerOf<"DELETE /channel">>, Error> {
	return useQuery({
		queryKey: ["dry run", "channel", appId, channel, withBundle],
		queryFn: () => planChannelDeletion(appId, channel, withBundle),
		placeholderData: keepPreviousData,
		...NEVER_KEPT,
	});
}

export type RollbackPlan = PlanOf<AnswerOf<"POST /channel/rollback">>;

/**
 * The outcome of a rollback; `version` null is the store build, undefined the bundle that was live
 * before.
 */
export function useRollbackPlan(
	appId: string,
	channel: string,
	version: string | null | undefined,
): UseQueryResult<RollbackPlan, Error> {
	return usePlan(["rollback", appId, channel, version], async () =>
		planIn(
			await ask("POST /channel/rollback", {
				body: {
					app_id: appId,
					channel,
					dry_run: true,
					...(version === undefined ? {} : { version: version ?? "builtin" }),
				},
			}),
		),
	);
}

type Bundles = { readonly version: string } | { readonly all: "true" };

/** @throws {CapstanError} if the deletion would be refused */
export const planBundleDeletion = async (appId: string, which: Bundles) =>
	planIn(await ask("DELETE /bundle", { query: { app_id: appId, ...which, dry_run: "true" } }));

/** @throws {CapstanError} if the deletion would be refused */
export async function planChannelDeletion(appId: string, channel: string, withBundle = false) {
	const more = withBundle ? { delete_bundle: "true" as const } : {};
	return planIn(await ask("DELETE /channel", { query: { app_id: appId, channel, ...more, dry_run: "true" } }));
}

export function useBundleDeletionPlan(appId: string, which: Bundles): UseQueryResult<BundlesPlan, Error> {
	return usePlan(["bundle", appId, which], () => planBundleDeletion(appId, which));
}

export function useAppDeletionPlan(appId: string): UseQueryResult<PlanOf<AnswerOf<"DELETE /app/:app_id">>, Error> {
	return usePlan(["app", appId], async () =>
		planIn(await ask("DELETE /app/:app_id", { params: { app_id: appId }, query: { dry_run: "true" } })),
	);
}

/** Roles that would end with a transfer. Waits until the other organization is known. */
export function useTransferPlan(
	appId: string,
	toOrg: string | undefined,
): UseQueryResult<AnswerOf<"POST /app/transfer">, Error> {
	return useQuery({
		queryKey: ["dry run", "transfer", appId, toOrg],
		queryFn: () => ask("POST /app/transfer", { body: { app_id: appId, to_org: toOrg ?? "", dry_run: true } }),
		enabled: toOrg !== undefined,
		...NEVER_KEPT,
	});
}
