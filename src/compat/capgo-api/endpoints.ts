/**
 * The public API as Capgo's scripts use it: forms of this server's endpoints, and paths that only
 * those scripts know. They use the same pipeline and authorization as every endpoint.
 */

import { createApp, getApp, listApps, updateApp } from "../../features/apps/routes";
import { createSampleApp } from "../../features/apps/sample/routes";
import { organizationAudit } from "../../features/audit/routes";
import { listBundles } from "../../features/bundles/list";
import { changeMetadata } from "../../features/bundles/metadata";
import { promoteBundle } from "../../features/bundles/promote";
import { registerBundle } from "../../features/bundles/register";
import { listChannels, setChannel } from "../../features/channels/routes";
import { listDevices } from "../../features/devices/list";
import { setDevice } from "../../features/devices/routes";
import { changeKey } from "../../features/keys/change";
import { createKey } from "../../features/keys/create";
import { getKey, listKeys } from "../../features/keys/read";
import { revokeKey } from "../../features/keys/revoke";
import { updateOrganization } from "../../features/organizations/change";
import { createOrganization } from "../../features/organizations/creation";
import { inviteMember } from "../../features/organizations/invite";
import { updateMember } from "../../features/organizations/member-change";
import { listOrganizations } from "../../features/organizations/read";
import { health } from "../../features/service/routes";
import type { AnyEndpoint } from "../../http/endpoint";
import { createAppForm, getAppForm, listAppsForm, updateAppForm } from "./apps";
import { organizationAuditForm } from "./audit";
import { changeMetadataForm, listBundlesForm, promoteBundleForm, registerBundleForm } from "./bundles";
import { listChannelsForm, setChannelForm } from "./channels";
import { listDevicesForm, setDeviceForm } from "./devices";
import { alias } from "./form";
import { groupEndpoints } from "./groups";
import { changeKeyForm, changeNamedKey, createKeyForm, getKeyForm, listKeysForm, revokeKeyForm } from "./keys";
import {
	createOrganizationForm,
	inviteMemberForm,
	listOrganizationsForm,
	updateMemberForm,
	updateOrganizationForm,
} from "./organizations";
import { webhookEndpoints } from "./webhooks";

const FORMS = new Map<AnyEndpoint, AnyEndpoint>([
	[listOrganizations, listOrganizationsForm],
	[organizationAudit, organizationAuditForm],
	[createOrganization, createOrganizationForm],
	[updateOrganization, updateOrganizationForm],
	[inviteMember, inviteMemberForm],
	[updateMember, updateMemberForm],
	[listKeys, listKeysForm],
	[getKey, getKeyForm],
	[createKey, createKeyForm],
	[changeKey, changeKeyForm],
	[revokeKey, revokeKeyForm],
	[listApps, listAppsForm],
	[createApp, createAppForm],
	[getApp, getAppForm],
	[updateApp, updateAppForm],
	[listChannels, listChannelsForm],
	[setChannel, setChannelForm],
	[listBundles, listBundlesForm],
	[changeMetadata, changeMetadataForm],
	[registerBundle, registerBundleForm],
	[promoteBundle, promoteBundleForm],
	[listDevices, listDevicesForm],
	[setDevice, setDeviceForm],
	[health, { ...health, alsoMethods: ["POST", "PUT", "PATCH", "DELETE"] }],
]);

/** The endpoints with their forms. */
export const withCapgoForms = <const List extends readonly AnyEndpoint[]>(list: List): List =>
	list.map((endpoint) => FORMS.get(endpoint) ?? endpoint) as unknown as List;

/** Paths that this server has under another name. */
export const capgoEndpoints = [
	changeNamedKey,
	alias(createSampleApp, "POST", "/app/demo", {
		summary: "Add a sample app, like POST /app/sample",
	}),
	...webhookEndpoints,
	...groupEndpoints,
] as const;
