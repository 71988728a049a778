/** Links to the screens of the open app, and to those of its organization that the user may open. */
import { NavLink } from "@mantine/core";
import { Link, useLocation } from "wouter";
import { type AppScreen, appPath, type OrganizationScreen, organizationPath } from "../paths";
import { type Permission, useOrganizationMay } from "../permissions";

const OF_APP: readonly (readonly [AppScreen, string])[] = [
	["overview", "Overview"],
	["channels", "Channels"],
	["previews", "Previews"],
	["bundles", "Bundles"],
	["devices", "Devices"],
	["statistics", "Statistics"],
	["changes", "Changes"],
	["publishers", "Publishers"],
	["connect", "Connect"],
	["settings", "Settings"],
];

const OF_ORGANIZATION: readonly (readonly [OrganizationScreen, string, Permission])[] = [
	["apps", "Apps", "org.read"],
	["statistics", "Statistics", "org.read"],
	["members", "Members", "org.read_members"],
	["keys", "API keys", "org.manage_apikeys"],
	["changes", "Audit log", "org.read_audit"],
	["webhooks", "Webhooks", "org.update_settings"],
	["settings", "Organization settings", "org.read"],
];

export function Navigation({
	orgId,
	appId,
}: {
	readonly orgId: string | undefined;
	readonly appId: string | undefined;
}) {
	return (
		<>
			{appId === undefined ? null : (
				<nav aria-label={`App ${appId}`}>
					<div className="nav-heading">{appId}</div>
					{OF_APP.map(([screen, label]) => (
						<Entry key={screen} to={appPath(appId, screen)} label={label} />
					))}
				</nav>
			)}
			{orgId === undefined ? null : <OrganizationNavigation orgId={orgId} />}
		</>
	);
}

function OrganizationNavigation({ orgId }: { readonly orgId: string }) {
	const may = useOrganizationMay(orgId);
	return (
		<nav aria-label="Organization">
			<div className="nav-heading">Organization</div>
			{OF_ORGANIZATION.filter(([, , permission]) => may(permission) !== false).map(([screen, label]) => (
				<Entry key={screen} to={organizationPath(orgId, screen)} label={label} />
			))}
		</nav>
	);
}

function Entry({ to, label }: { readonly to: string; readonly label: string }) {
	const [location] = useLocation();
	const isHere = location === to || location.startsWith(`${to}/`);
	return (
		<NavLink
			component={Link}
			href={to}
			label={label}
			active={isHere}
			{...(location === to ? { "aria-current": "page" as const } : {})}
		/>
	);
}
