/**
 * Links to the places of the open app, and to those of its organization that the user may open: in
 * the sidebar, or in the sheet of phones.
 */
import { Link } from "wouter";
import { isSampleAppId } from "../../../src/domain/sample-app";
import { useAsk } from "../api";
import { Icon } from "../components/icon";
import { useFirstSteps } from "../first-steps";
import { type IconDrawing, IconListCheck } from "../icons";
import { appPath, organizationPath } from "../paths";
import { useOrganizationMay } from "../permissions";
import { APP_PLACES, ORGANIZATION_PLACES, placeOf } from "./places";

export interface Where {
	readonly orgId: string | undefined;
	readonly appId?: string | undefined;
	/** Name of the open screen, as in its address. */
	readonly screen?: string | undefined;
	/** The item that the screen shows, e.g. a channel's name. */
	readonly item?: string | undefined;
}

export function Navigation({ orgId, appId, screen, organization }: Where & { readonly organization: string }) {
	const here = placeOf(APP_PLACES, appId === undefined ? undefined : screen);
	const approvals = useApprovals(appId);
	return (
		<>
			{appId === undefined ? null : (
				<nav className="nav" aria-label={`App ${appId}`}>
					<GetStarted key={appId} appId={appId} />
					{APP_PLACES.map((place) => (
						<Entry
							key={place.screen}
							to={appPath(appId, place.screen)}
							isHere={place === here}
							icon={place.icon}
							waiting={place.screen === "channels" ? approvals : 0}
						>
							{place.label}
						</Entry>
					))}
				</nav>
			)}
			{orgId === undefined ? null : (
				<OrganizationNavigation
					orgId={orgId}
					screen={appId === undefined ? screen : undefined}
					heading={appId === undefined ? undefined : organization}
				/>
			)}
		</>
	);
}

/** Releases of the app that wait for the reader's approval, from the answer that names the app. */
export function useApprovals(appId: string | undefined): number {
	const app = useAsk("GET /app/:app_id", { params: { app_id: appId ?? "" } }, { enabled: appId !== undefined });
	return app.data?.approvals.length ?? 0;
}

/** Until every first step is done. The palette leads there afterwards. */
function GetStarted({ appId }: { readonly appId: string }) {
	const { isDone } = useFirstSteps(isSampleAppId(appId) ? undefined : appId, "link");
	return isDone === false ? (
		<Entry to={`${appPath(appId)}?do=start`} isHere={false} icon={IconListCheck}>
			Get started
		</Entry>
	) : null;
}

function OrganizationNavigation({
	orgId,
	screen,
	heading,
}: {
	readonly orgId: string;
	readonly screen: string | undefined;
	readonly heading: string | undefined;
}) {
	const may = useOrganizationMay(orgId);
	const here = placeOf(ORGANIZATION_PLACES, screen);
	return (
		<nav className="nav" aria-label="Organization">
			{heading === undefined ? null : <div className="nav-heading cut">{heading}</div>}
			{ORGANIZATION_PLACES.filter(({ permission }) => may(permission) === true).map((place) => (
				<Entry key={place.screen} to={organizationPath(orgId, place.screen)} isHere={place === here} icon={place.icon}>
					{place.label}
				</Entry>
			))}
		</nav>
	);
}

function Entry({
	to,
	isHere,
	icon,
	waiting = 0,
	children,
}: {
	readonly to: string;
	readonly isHere: boolean;
	readonly icon: IconDrawing;
	/** Things that wait for the reader. */
	readonly waiting?: number;
	readonly children: string;
}) {
	return (
		<Link href={to} {...(isHere ? { "aria-current": "page" as const } : {})}>
			<Icon of={icon} />
			{children}
			<Waiting count={waiting} />
		</Link>
	);
}

/** An amber number, which means "waits for you". */
export function Waiting({ count }: { readonly count: number }) {
	if (count === 0) return null;
	return (
		<span className="waiting">
			<span className="num">{count}</span>
			<span className="sr"> {count === 1 ? "waits" : "wait"} for your approval</span>
		</span>
	);
}

/** Screens that share an entry of the navigation, above the open one. */
export function Tabs({ orgId, appId, screen, item }: Where) {
	const may = useOrganizationMay(orgId);
	if (item !== undefined) return null;
	const tabs =
		appId === undefined
			? placeOf(ORGANIZATION_PLACES, screen)
					?.tabs?.filter(([, , permission]) => may(permission) === true)
					.map(([tab, label]) => ({ tab, label, to: organizationPath(orgId ?? "", tab) }))
			: placeOf(APP_PLACES, screen)?.tabs?.map(([tab, label]) => ({ tab, label, to: appPath(appId, tab) }));
	if (tabs === undefined || tabs.length < 2) return null;
	return (
		<nav className="tabs" aria-label="Tabs">
			{tabs.map(({ tab, label, to }) => (
				<Link key={tab} href={to} {...(tab === screen ? { "aria-current": "page" as const } : {})}>
					{label}
				</Link>
			))}
		</nav>
	);
}
