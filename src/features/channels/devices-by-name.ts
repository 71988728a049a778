/**
 * Devices that a protected channel loses by a name. A device whose build sends the name of a
 * channel is served by it as soon as the channel is open to devices. So opening such a channel
 * changes what the app's protected public channel serves, and takes the same right as changing its
 * settings.
 */
import { type AppId, decide } from "../../authz/decide";
import type { Principal } from "../../authz/principal";
import { requireRecentSignIn } from "../../authz/session";
import { type PreviewNameRow, withDevicesNaming } from "../../db/channel-names";
import { guard, type Statement } from "../../db/client";
import type { Deps } from "../../deps";
import { ApiError } from "../../errors";
import type { Difference } from "./difference";
import { channelChanged } from "./guards";
import { noProtectedPublicChannel, type ProtectedPublicRow } from "./protection";
import type { ChangeContext } from "./reads";

interface Caller {
	readonly deps: Deps;
	readonly principal: Principal;
	readonly scope: { readonly orgId: string; readonly appId: AppId };
	readonly nowMs: number;
}

/**
 * The conditions of the batch that opens the channel.
 * @throws {ApiError} `permission_denied`, `recent_sign_in_required`, or `service_unavailable` if
 * the devices cannot be counted
 */
async function refuseFleetOfProtected(
	{ deps, principal, scope, nowMs }: Caller,
	name: string,
	nameRow: PreviewNameRow,
	protectedPublic: readonly ProtectedPublicRow[],
): Promise<Statement[]> {
	const isTaken = protectedPublic.some((row) => row.name !== name);
	if (!isTaken) {
		const becameProtected = () => channelChanged("opens while another one became protected");
		return [guard(noProtectedPublicChannel(scope.appId, name), becameProtected)];
	}
	const { devices } = await withDevicesNaming(deps, scope.appId, nameRow, name);
	if (devices === 0) return [];
	const target = { orgId: scope.orgId, appId: scope.appId };
	if (decide(principal, "app.update_user_roles", target).outcome !== "allow") {
		const [taker] = protectedPublic.filter((row) => row.name !== name);
		throw new ApiError(
			"permission_denied",
			`Devices send the name ${name} and are served by the protected channel ${taker?.name} until a channel of that name opens, so only administrators of the app may open it. Ask one, propose the bundle for ${taker?.name}, or choose a name that no device sends.`,
			{ moreInfo: { permission: "app.update_user_roles", scope: "app" } },
		);
	}
	if (principal.kind === "session") requireRecentSignIn(principal, true, nowMs);
	return [];
}

/**
 * For a change that opens the channel to devices by its name. A preview's name has rules of its own
 * (db/channel-names.ts).
 */
export async function openingGuards(
	context: Pick<ChangeContext, "deps" | "principal" | "scope" | "nowMs" | "loaded">,
	{ name, opensByName }: Pick<Difference, "name" | "opensByName">,
): Promise<readonly Statement[]> {
	const { naming, protectedPublic } = context.loaded;
	const [nameRow] = naming;
	if (!opensByName || nameRow === undefined) return [];
	return refuseFleetOfProtected(context, name, nameRow, protectedPublic);
}
