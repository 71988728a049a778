/**
 * Which address shows which screen. Each screen is a file of its own that is loaded when it is opened; whoever is not signed in is sent to
 * sign in by the first answer of the API.
 */
import { type ComponentType, lazy, Suspense } from "react";
import { Redirect, Route, Switch, useLocation } from "wouter";
import { useAsk } from "./api";
import { lastOrganization, useOrganizations } from "./organizations";
import { Answer, Loading } from "./parts/answer";
import { Empty, Screen } from "./parts/screen";
import { organizationPath } from "./paths";
import { Boundary } from "./shell/boundary";
import { Shell } from "./shell/shell";

export interface OrganizationScreenProps {
	readonly orgId: string;
}
export interface AppScreenProps {
	readonly appId: string;
	/** Undefined until the app is known. */
	readonly orgId: string | undefined;
}

const Organizations = lazy(() => import("./screens/organizations"));

const ORGANIZATION_SCREENS: readonly (readonly [string, ComponentType<OrganizationScreenProps>])[] = [
	["apps", lazy(() => import("./screens/apps"))],
];

const APP_SCREENS: readonly (readonly [string, ComponentType<AppScreenProps>])[] = [
	["overview", lazy(() => import("./screens/overview"))],
];

export function App() {
	const account = useAsk("GET /account", {});
	return (
		<Answer query={account} what="your account">
			{() => (
				<Switch>
					<Route path="/organizations/:orgId/:screen/*?">
						{({ orgId, screen }) => <OrganizationFrame key={orgId} orgId={orgId} screen={screen} />}
					</Route>
					<Route path="/apps/:appId/:screen/*?">
						{({ appId, screen }) => <AppFrame key={appId} appId={appId} screen={screen} />}
					</Route>
					<Route path="/organizations">
						<Plain>
							<Organizations />
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

function OrganizationFrame({ orgId, screen }: { readonly orgId: string; readonly screen: string }) {
	const Content = ORGANIZATION_SCREENS.find(([name]) => name === screen)?.[1];
	return (
		<Shell orgId={orgId}>
			<Boundary key={screen}>
				<Suspense fallback={<Loading what="the screen" />}>
					{Content === undefined ? <NoScreen /> : <Content orgId={orgId} />}
				</Suspense>
			</Boundary>
		</Shell>
	);
}

function AppFrame({ appId, screen }: { readonly appId: string; readonly screen: string }) {
	const Content = APP_SCREENS.find(([name]) => name === screen)?.[1];
	const app = useAsk("GET /app/:app_id", { params: { app_id: appId } });
	const [location] = useLocation();
	return (
		<Shell orgId={app.data?.owner_org} appId={appId}>
			<Boundary key={location}>
				<Suspense fallback={<Loading what="the screen" />}>
					{Content === undefined ? (
						<NoScreen />
					) : (
						<Answer query={app} what={`the app ${appId}`}>
							{({ owner_org }) => <Content appId={appId} orgId={owner_org} />}
						</Answer>
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
