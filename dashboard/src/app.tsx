/**
 * Which address shows which screen. Each screen is a file of its own that is loaded when it is opened; whoever is not signed in is sent to
 * sign in by the first answer of the API.
 */
import { type ComponentType, lazy, Suspense } from "react";
import { Redirect, Route, Switch, useLocation } from "wouter";
import { useAsk } from "./api";
import { useIdentityRequest } from "./identity";
import { lastOrganization, useOrganizations } from "./organizations";
import { Answer, Loading } from "./parts/answer";
import { Empty, Screen } from "./parts/screen";
import { organizationPath } from "./paths";
import { Boundary } from "./shell/boundary";
import { Shell } from "./shell/shell";

export interface OrganizationScreenProps {
	readonly orgId: string;
}
export interface OrganizationItemProps extends OrganizationScreenProps {
	/** The id of what is looked at. */
	readonly item: string;
}
export interface AppScreenProps {
	readonly appId: string;
	/** Undefined until the app is known. */
	readonly orgId: string | undefined;
}

export interface AppItemProps extends AppScreenProps {
	/** The name or id of what is looked at. */
	readonly item: string;
}

const ConfirmIdentity = lazy(() => import("./parts/confirm-identity"));
const Organizations = lazy(() => import("./screens/organizations"));
const Account = lazy(() => import("./screens/account"));

const ORGANIZATION_SCREENS: readonly (readonly [string, ComponentType<OrganizationScreenProps>])[] = [
	["apps", lazy(() => import("./screens/apps"))],
	["members", lazy(() => import("./screens/members"))],
	["keys", lazy(() => import("./screens/keys"))],
	["statistics", lazy(() => import("./screens/organization-statistics"))],
	["changes", lazy(() => import("./screens/organization-changes"))],
	["settings", lazy(() => import("./screens/settings"))],
];

const ORGANIZATION_ITEMS: readonly (readonly [string, ComponentType<OrganizationItemProps>])[] = [
	["keys", lazy(() => import("./screens/key"))],
];

const APP_SCREENS: readonly (readonly [string, ComponentType<AppScreenProps>])[] = [
	["overview", lazy(() => import("./screens/overview"))],
	["channels", lazy(() => import("./screens/channels"))],
	["bundles", lazy(() => import("./screens/bundles"))],
	["devices", lazy(() => import("./screens/devices"))],
	["statistics", lazy(() => import("./screens/app-statistics"))],
	["changes", lazy(() => import("./screens/app-changes"))],
	["connect", lazy(() => import("./screens/connect"))],
	["settings", lazy(() => import("./screens/app-settings"))],
];

/** What is opened from the list of the same name. */
const APP_ITEMS: readonly (readonly [string, ComponentType<AppItemProps>])[] = [
	["channels", lazy(() => import("./screens/channel"))],
	["bundles", lazy(() => import("./screens/bundle"))],
	["devices", lazy(() => import("./screens/device"))],
];

/** The router leaves those characters encoded that have a meaning in addresses, e.g. the / in a channel's name. */
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
	return (
		<>
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
						<Route path="/apps/:appId/:screen/:item?">
							{({ appId, screen, item }) => <AppFrame key={appId} appId={appId} screen={screen} item={item} />}
						</Route>
						<Route path="/organizations">
							<Plain>
								<Organizations />
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

/** To the apps of the organization that was looked at last. */
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
	return (
		<Shell orgId={orgId}>
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
}: {
	readonly appId: string;
	readonly screen: string;
	readonly item: string | undefined;
}) {
	const List = APP_SCREENS.find(([name]) => name === screen)?.[1];
	const Item = APP_ITEMS.find(([name]) => name === screen)?.[1];
	const isKnown = item === undefined ? List !== undefined : Item !== undefined;
	const app = useAsk("GET /app/:app_id", { params: { app_id: appId } });
	const [location] = useLocation();
	return (
		<Shell orgId={app.data?.owner_org} appId={appId}>
			<Boundary key={location}>
				<Suspense fallback={<Loading what="the screen" />}>
					{isKnown ? (
						<Answer query={app} what={`the app ${appId}`}>
							{({ owner_org }) => (
								<>
									{item === undefined && List !== undefined ? <List appId={appId} orgId={owner_org} /> : null}
									{item !== undefined && Item !== undefined ? (
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

function NoScreen() {
	return (
		<Screen title="No such screen">
			<Empty title="There is nothing at this address">Choose something from the navigation.</Empty>
		</Screen>
	);
}
