/**
 * Organization / app / place / object. On phones only the last one stays; the app's tile beside it
 * is the way up.
 */
import { Link } from "wouter";
import { Icon } from "../components/icon";
import { usePageTitle } from "../components/page-title";
import { IconChevronRight } from "../icons";
import type { Organization } from "../organizations";
import { appPath, organizationPath } from "../paths";
import type { OpenApp } from "./app-switcher";
import type { Where } from "./navigation";
import { APP_PLACES, ORGANIZATION_PLACES, placeOf } from "./places";

interface Crumb {
	readonly label: string;
	readonly to?: string;
}

export function Breadcrumbs({
	where: { orgId, appId, screen, item },
	organization,
	app,
}: {
	readonly where: Where;
	readonly organization: Organization | undefined;
	readonly app: OpenApp | undefined;
}) {
	const title = usePageTitle();
	const crumbs: Crumb[] = [];
	if (organization !== undefined && screen !== undefined) {
		crumbs.push({ label: organization.name, to: organizationPath(organization.id) });
	}
	if (appId !== undefined) crumbs.push({ label: app?.name ?? appId, to: appPath(appId) });
	const place = appId === undefined ? placeOf(ORGANIZATION_PLACES, screen) : placeOf(APP_PLACES, screen);
	if (place !== undefined && place.screen !== "releases") {
		const to =
			appId === undefined
				? organizationPath(orgId ?? "", place.screen as "apps")
				: appPath(appId, place.screen as "releases");
		crumbs.push({ label: place.label, to });
	}
	const isPlace = place !== undefined && item === undefined && place.screen === screen;
	if (!isPlace && title !== "") crumbs.push({ label: title });
	return (
		<nav className="crumbs" aria-label="Breadcrumbs">
			<ol className="plain">
				{crumbs.map(({ label, to }, index) => {
					const isLast = index === crumbs.length - 1;
					return (
						<li key={to ?? label}>
							{index === 0 ? null : <Icon of={IconChevronRight} size="s" />}
							{isLast || to === undefined ? (
								<span className="cut" {...(isLast ? { "aria-current": "page" as const } : {})}>
									{label}
								</span>
							) : (
								<Link href={to} className="cut">
									{label}
								</Link>
							)}
						</li>
					);
				})}
			</ol>
		</nav>
	);
}
