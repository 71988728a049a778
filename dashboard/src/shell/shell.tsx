/**
 * The frame around every screen. Desktop: sidebar with app switcher, search, navigation and "You";
 * the page is a panel with a bar of breadcrumbs. Phone: a bar with the app's tile and search, and a
 * tab bar at the bottom whose last tab opens the whole navigation.
 */
import { Drawer } from "@mantine/core";
import { lazy, type ReactNode, Suspense, useCallback, useEffect, useState } from "react";
import { Link, useLocation } from "wouter";
import { useAsk } from "../api";
import { Icon } from "../components/icon";
import { useIsPhone } from "../components/phone";
import { IconDots, IconSearch } from "../icons";
import { storeLastOrganization, useOrganizations } from "../organizations";
import { appPath, organizationPath } from "../paths";
import { useOrganizationMay } from "../permissions";
import { AppSwitcher, type OpenApp } from "./app-switcher";
import { Breadcrumbs } from "./breadcrumbs";
import { Freshness, OfflineStrip } from "./freshness";
import { Navigation, Tabs, useApprovals, Waiting, type Where } from "./navigation";
import { OperatorNotice } from "./operator-notice";
import { PaletteOverlay, preparePalette } from "./palette-overlay";
import { APP_PLACES, ORGANIZATION_PLACES, placeOf } from "./places";
import { type Overlay, SEARCH_KEY, useShortcuts } from "./shortcuts";
import { storeVisitedApp } from "./visited";
import { You } from "./you";

/** For the number of approvals. */
const LOOK_AGAIN_MS = 30_000;

const ShortcutHelp = lazy(() => import("./shortcut-help"));

export function Shell({ children, ...where }: Where & { readonly children: ReactNode }) {
	const { orgId, appId } = where;
	const [location] = useLocation();
	const [overlay, setOverlay] = useState<Overlay | undefined>();
	const [openedAt, setOpenedAt] = useState(location);
	if (openedAt !== location) {
		setOpenedAt(location);
		setOverlay(undefined);
	}
	const isPhone = useIsPhone();
	const organizations = useOrganizations();
	const organization = organizations.data?.find(({ id }) => id === orgId);
	const record = useAsk(
		"GET /app/:app_id",
		{ params: { app_id: appId ?? "" } },
		{ enabled: appId !== undefined, everyMs: LOOK_AGAIN_MS },
	);
	const app: OpenApp | undefined =
		appId === undefined ? undefined : { appId, name: record.data?.name ?? appId, icon: record.data?.icon_url ?? null };
	useEffect(() => {
		if (orgId !== undefined) storeLastOrganization(orgId);
		if (appId !== undefined && record.data !== undefined) storeVisitedApp(appId);
	}, [orgId, appId, record.data]);
	useShortcuts({ appId, orgId, setOverlay, prepareSearch: preparePalette });
	const switcher = (
		<AppSwitcher
			organization={organization}
			app={app}
			isOpen={overlay === "switcher"}
			onOpen={(isOpen) => setOverlay(isOpen ? "switcher" : undefined)}
		/>
	);
	const search = () => setOverlay("palette");
	const close = useCallback(() => setOverlay(undefined), []);
	const you = <You onShortcuts={() => setOverlay("help")} />;
	const navigation = <Navigation {...where} organization={organization?.name ?? "Organization"} />;
	return (
		<div className="app">
			<a className="skip-link" href="#content">
				Skip to content
			</a>
			{isPhone ? null : (
				<aside className="side" aria-label="Sidebar">
					{switcher}
					<button type="button" className="find" onPointerEnter={preparePalette} onClick={search}>
						<Icon of={IconSearch} />
						Search
						<span className="kbd" aria-hidden="true">
							{SEARCH_KEY}
						</span>
					</button>
					{navigation}
					{you}
				</aside>
			)}
			<div className="panel">
				<header className="top">
					{isPhone ? switcher : null}
					<Breadcrumbs where={where} organization={organization} app={app} />
					<Freshness />
					{isPhone ? (
						<button type="button" className="btn ghost icon-only" aria-label="Search" onClick={search}>
							<Icon of={IconSearch} size="l" />
						</button>
					) : null}
				</header>
				<main id="content" className="body" tabIndex={-1}>
					<OfflineStrip />
					<OperatorNotice />
					<Tabs {...where} />
					{children}
				</main>
			</div>
			{isPhone ? (
				<>
					<TabBar {...where} onMore={() => setOverlay("more")} />
					<Drawer opened={overlay === "more"} onClose={close} title="Navigation" position="bottom" size="auto">
						{navigation}
						{you}
					</Drawer>
				</>
			) : null}
			{overlay === "palette" ? <PaletteOverlay where={where} onClose={close} /> : null}
			<Suspense>{overlay === "help" ? <ShortcutHelp onClose={close} /> : null}</Suspense>
		</div>
	);
}

/** The four places that phones show at once. */
const APP_TABS = ["releases", "channels", "devices", "statistics"];
const ORGANIZATION_TABS = ["apps", "members", "keys", "changes"];

function TabBar({ orgId, appId, screen, onMore }: Where & { readonly onMore: () => void }) {
	const may = useOrganizationMay(orgId);
	const approvals = useApprovals(appId);
	const tabs =
		appId !== undefined
			? APP_PLACES.filter(({ screen: name }) => APP_TABS.includes(name)).map((place) => ({
					place,
					to: appPath(appId, place.screen),
					isHere: placeOf(APP_PLACES, screen) === place,
				}))
			: ORGANIZATION_PLACES.filter(
					({ screen: name, permission }) => ORGANIZATION_TABS.includes(name) && may(permission) === true,
				).map((place) => ({
					place,
					to: organizationPath(orgId ?? "", place.screen),
					isHere: placeOf(ORGANIZATION_PLACES, screen) === place,
				}));
	return (
		<nav className="tabbar" aria-label="Main">
			{orgId === undefined && appId === undefined
				? null
				: tabs.map(({ place: { label, icon }, to, isHere }) => (
						<Link key={label} href={to} {...(isHere ? { "aria-current": "page" as const } : {})}>
							<Icon of={icon} size="l" />
							{label}
							<Waiting count={appId !== undefined && label === "Channels" ? approvals : 0} />
						</Link>
					))}
			<button type="button" onClick={onMore} aria-haspopup="dialog">
				<Icon of={IconDots} size="l" />
				More
			</button>
		</nav>
	);
}
