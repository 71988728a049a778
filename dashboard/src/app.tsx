/**
 * Routes of the dashboard. Each screen is loaded when it is opened. Without a session, the first
 * API answer redirects to the sign-in page.
 */
import { type ComponentType, lazy, Suspense, useRef } from "react";
import { Redirect, Route, Switch, useLocation } from "wouter";
import { CapstanError, useAllPages, useAsk } from "./api";
import { Answer, Loading } from "./components/answer";
import { isMissing, Missing } from "./components/missing";
import { Empty, Screen } from "./components/screen";
import { useLeaving } from "./components/unsaved";
import { useIdentityRequest } from "./identity";
import { lastOrganization, useOrganizations } from "./organizations";
import { appPath, organizationPath } from "./paths";
import { useOrganizationOfRole } from "./permissions";
import type { AppItemProps, AppScreenProps, OrganizationItemProps, OrganizationScreenProps } from "./screen-props";
import { Boundary } from "./shell/boundary";
import { Shell } from "./shell/shell";

const ConfirmIdentity = lazy(() => import("./components/confirm-identity"));
const LeaveQuestion = lazy(() => import("./components/leave-question"));
const Organizations = lazy(() => import("./screens/organization/organizations"));
const CliLogin = lazy(() => import("./screens/keys/cli-login"));
const Account = lazy(() => import("./screens/account/account"));

/** For roles on one channel, whose holders do not see the app. */
const SingleChannel = lazy(() => import("./screens/channels/single-channel"));

/** Below the channel that it was released to. */
const Release = lazy(() => import("./screens/releases/release"));

const auditLog = () => import("./screens/audit/audit-log");
const statistics = () => import("./screens/statistics/statistics");
const webhooks = () => import("./screens/webhooks/webhooks");
const webhook = () => import("./screens/webhooks/webhook");

const ORGANIZATION_SCREENS: readonly (readonly [string, ComponentType<OrganizationScreenProps>])[] = [
	["apps", lazy(() => import("./screens/apps/apps"))],
	["members", lazy(() => import("./screens/organization/members"))],
	["groups", lazy(() => import("./screens/organization/groups"))],
	["roles", lazy(() => import("./screens/organization/roles"))],
	["keys", lazy(() => import("./screens/keys/keys"))],
	["statistics", lazy(async () => ({ default: (await statistics()).OrganizationStatistics }))],
	["changes", lazy(async () => ({ default: (await auditLog()).OrganizationChanges }))],
	["webhooks", lazy(async () => ({ default: (await webhooks()).OrganizationWebhooks }))],
	["settings", lazy(() => import("./screens/organization/settings"))],
];

const ORGANIZATION_ITEMS: readonly (readonly [string, ComponentType<OrganizationItemProps>])[] = [
	["keys", lazy(() => import("./screens/keys/key"))],
	["groups", lazy(() => import("./screens/organization/group"))],
	["webhooks", lazy(async () => ({ default: (await webhook()).OrganizationWebhook }))],
];

const APP_SCREENS: readonly (readonly [string, ComponentType<AppScreenProps>])[] = [
	["releases", lazy(() => import("./screens/apps/overview"))],
	["channels", lazy(() => import("./screens/channels/channels"))],
	["previews", lazy(() => import("./screens/previews/previews"))],
	["bundles", lazy(() => import("./screens/bundles/bundles"))],
	["devices", lazy(() => import("./screens/devices/devices"))],
	["events", lazy(() => import("./screens/devices/events"))],
	["statistics", lazy(async () => ({ default: (await statistics()).AppStatistics }))],
	["changes", lazy(async () => ({ default: (await auditLog()).AppChanges }))],
	["publishers", lazy(() => import("./screens/publishers/publishers"))],
	["webhooks", lazy(async () => ({ default: (await webhooks()).AppWebhooks }))],
	["connect", lazy(() => import("./screens/connect/connect"))],
	["settings", lazy(() => import("./screens/apps/settings"))],
];

/** Screens of one item, opened from the list of the same name. */
const APP_ITEMS: readonly (readonly [string, ComponentType<AppItemProps>])[] = [
	["channels", lazy(() => import("./screens/channels/channel"))],
	["bundles", lazy(() => import("./screens/bundles/bundle"))],
	["devices", lazy(() => import("./screens/devices/device"))],
	["webhooks", lazy(async () => ({ default: (await webhook()).AppWebhook }))],
];

/** The router leaves reserved characters encoded, e.g. the / in a channel's name. */
function decoded(text: string): string {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}

export function App() {
	const account = useAsk("GET /account", {});
	const identityRequest = useIdentityRequest();
	const isLeaving = useLeaving() !== undefined;
	return (
		<>
			{isLeaving ? (
				<Suspense>
					<LeaveQuestion />
				</Suspense>
			) : null}
			{identityRequest === undefined ? null : (
				<Suspense>
					<ConfirmIdentity request={identityRequest} />
				</Suspense>
			)}
			<Answer query={account} what="your account">
				{() => (
					<Switch>
						<Route path="/organizations/:orgId/:screen/:item?">
							{({ orgId, screen, item }) => <OrganizationFrame key={orgId} orgId={orgId} screen={screen} item={item} />}
						</Route>
						<Route path="/apps/:appId">{({ appId }) => <Redirect to={appPath(decoded(appId))} replace />}</Route>
						<Route path="/apps/:appId/overview">
							{({ appId }) => <Redirect to={appPath(decoded(appId))} replace />}
						</Route>
						<Route path="/apps/:appId/channels/:channel/releases/:item">
							{({ appId, channel, item }) => (
								<AppFrame key={appId} appId={appId} screen="releases" item={item} channel={decoded(channel)} />
							)}
						</Route>
						<Route path="/apps/:appId/:screen/:item?">
							{({ appId, screen, item }) => <AppFrame key={appId} appId={appId} screen={screen} item={item} />}
						</Route>
						<Route path="/organizations">
							<Plain>
								<Organizations />
							</Plain>
						</Route>
						<Route path="/connect/cli">
							<Plain>
								<CliLogin />
							</Plain>
						</Route>
						<Route path="/account">
							<Plain>
								<Account />
							</Plain>
						</Route>
						<Route path="/">
							<Start />
						</Route>
						<Route>
							<Plain>
								<NoScreen />
							</Plain>
						</Route>
					</Switch>
				)}
			</Answer>
		</>
	);
}

function Plain({ children }: { readonly children: React.ReactNode }) {
	const organizations = useOrganizations();
	const last = lastOrganization();
	const known = organizations.data?.find(({ id }) => id === last) ?? organizations.data?.[0];
	return (
		<Shell orgId={known?.id}>
			<Boundary>
				<Suspense fallback={<Loading what="the screen" />}>{children}</Suspense>
			</Boundary>
		</Shell>
	);
}

/** Redirects to the apps of the organization that was open last. */
function Start() {
	const organizations = useOrganizations();
	const last = lastOrganization();
	return (
		<Answer query={organizations} what="your organizations">
			{(known) => {
				const [first] = known;
				if (first === undefined) return <Redirect to="/organizations" />;
				return <Redirect to={organizationPath(known.some(({ id }) => id === last) ? (last ?? first.id) : first.id)} />;
			}}
		</Answer>
	);
}

function OrganizationFrame({
	orgId,
	screen,
	item,
}: {
	readonly orgId: string;
	readonly screen: string;
	readonly item: string | undefined;
}) {
	const List = ORGANIZATION_SCREENS.find(([name]) => name === screen)?.[1];
	const Item = ORGANIZATION_ITEMS.find(([name]) => name === screen)?.[1];
	const isKnown = item === undefined ? List !== undefined : Item !== undefined;
	const [location] = useLocation();
	const organizations = useOrganizations();
	const others = organizations.data?.map(({ id, name }) => ({ name, to: organizationPath(id) })) ?? [];
	// One that is deleted here says on its own screen what happened.
	const wasThere = useRef(false);
	wasThere.current ||= organizations.data?.some(({ id }) => id === orgId) === true;
	if (!wasThere.current && !organizations.isFetching && organizations.data !== undefined) {
		return (
			<Plain>
				<Missing
					kind="organization"
					name={orgId}
					because="It was deleted, or you are not a member of it."
					others={others}
					list={{ to: "/organizations", label: "All organizations" }}
				/>
			</Plain>
		);
	}
	return (
		<Shell orgId={orgId} screen={screen} item={item === undefined ? undefined : decoded(item)}>
			<Boundary key={location}>
				<Suspense fallback={<Loading what="the screen" />}>
					{isKnown ? null : <NoScreen />}
					{item === undefined && List !== undefined ? <List orgId={orgId} /> : null}
					{item !== undefined && Item !== undefined ? <Item orgId={orgId} item={decoded(item)} /> : null}
				</Suspense>
			</Boundary>
		</Shell>
	);
}

function AppFrame({
	appId,
	screen,
	item,
	channel,
}: {
	readonly appId: string;
	readonly screen: string;
	readonly item: string | undefined;
	/** The channel of the release that `item` names. */
	readonly channel?: string;
}) {
	const List = APP_SCREENS.find(([name]) => name === screen)?.[1];
	const Item = APP_ITEMS.find(([name]) => name === screen)?.[1];
	const isKnown = channel !== undefined || (item === undefined ? List !== undefined : Item !== undefined);
	const app = useAsk("GET /app/:app_id", { params: { app_id: appId } });
	const [location] = useLocation();
	const isHidden = app.error instanceof CapstanError && app.error.code === "app_not_found";
	if (isHidden && screen === "channels" && item !== undefined) {
		return <ChannelFrame key={location} appId={appId} item={decoded(item)} />;
	}
	if (isMissing(app.error)) return <MissingApp appId={decoded(appId)} />;
	return (
		<Shell
			orgId={app.data?.owner_org}
			appId={appId}
			screen={screen}
			item={item === undefined ? undefined : decoded(item)}
		>
			<Boundary key={location}>
				<Suspense fallback={<Loading what="the screen" />}>
					{isKnown ? (
						<Answer query={app} what={`the app ${appId}`}>
							{({ owner_org }) => (
								<>
									{item === undefined && List !== undefined ? <List appId={appId} orgId={owner_org} /> : null}
									{item !== undefined && channel !== undefined ? (
										<Release appId={appId} orgId={owner_org} channel={channel} release={decoded(item)} />
									) : null}
									{item !== undefined && channel === undefined && Item !== undefined ? (
										<Item appId={appId} orgId={owner_org} item={decoded(item)} />
									) : null}
								</>
							)}
						</Answer>
					) : (
						<NoScreen />
					)}
				</Suspense>
			</Boundary>
		</Shell>
	);
}

/** In the frame of the organization that was open last: an app that does not exist has no places. */
function MissingApp({ appId }: { readonly appId: string }) {
	const organizations = useOrganizations();
	const last = lastOrganization();
	const orgId = (organizations.data?.find(({ id }) => id === last) ?? organizations.data?.[0])?.id;
	const apps = useAllPages("GET /app", {});
	return (
		<Plain>
			<Missing
				kind="app"
				name={appId}
				others={apps.data?.flatMap(({ app_id, name }) => [
					{ name: app_id, to: appPath(app_id) },
					...(name === null || name === app_id ? [] : [{ name, to: appPath(app_id) }]),
				])}
				list={
					orgId === undefined
						? { to: "/organizations", label: "All organizations" }
						: { to: organizationPath(orgId), label: "All apps" }
				}
			/>
		</Plain>
	);
}

/** The places of the app would all be empty, so only those of the organization are offered. */
function ChannelFrame({ appId, item }: { readonly appId: string; readonly item: string }) {
	const orgId = useOrganizationOfRole(appId);
	return (
		<Shell orgId={orgId} screen="apps" item={item}>
			<Boundary>
				<Suspense fallback={<Loading what="the screen" />}>
					<SingleChannel appId={appId} orgId={orgId} item={item} />
				</Suspense>
			</Boundary>
		</Shell>
	);
}

function NoScreen() {
	return (
		<Screen title="Page not found">
			<Empty title="There is no page at this address">Choose one from the navigation.</Empty>
		</Screen>
	);
}
