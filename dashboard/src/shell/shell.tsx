/** The frame around every screen: organization switcher, navigation (a drawer on phones) and account menu. */
import { Burger, Button, Drawer, Menu, NativeSelect } from "@mantine/core";
import { type ReactNode, useEffect, useState } from "react";
import { Link, useLocation } from "wouter";
import { leaveFor, queryClient, useAsk, useChange } from "../api";
import { storeLastOrganization, useOrganizations } from "../organizations";
import { organizationPath } from "../paths";
import { Navigation } from "./navigation";
import { OperatorNotice } from "./operator-notice";

export function Shell({
	orgId,
	appId,
	children,
}: {
	readonly orgId: string | undefined;
	readonly appId?: string;
	readonly children: ReactNode;
}) {
	const [location] = useLocation();
	const [openedAt, setOpenedAt] = useState<string | undefined>();
	const isOpen = openedAt === location;
	useEffect(() => {
		if (orgId !== undefined) storeLastOrganization(orgId);
	}, [orgId]);
	const navigation = <Navigation orgId={orgId} appId={appId} />;
	return (
		<>
			<a className="skip-link" href="#content">
				Skip to content
			</a>
			<header className="page-header">
				<Burger
					className="phone"
					size="sm"
					opened={isOpen}
					aria-label="Navigation"
					onClick={() => setOpenedAt(isOpen ? undefined : location)}
				/>
				<Link href="/" className="brand">
					Capstan
				</Link>
				<div className="grow">
					<OrganizationSwitcher orgId={orgId} />
				</div>
				<AccountMenu />
			</header>
			<Drawer opened={isOpen} onClose={() => setOpenedAt(undefined)} title="Navigation" size="18rem">
				{navigation}
			</Drawer>
			<div className="page-body">
				<div className="page-nav">{navigation}</div>
				<main id="content" className="page-main" tabIndex={-1}>
					<OperatorNotice />
					{children}
				</main>
			</div>
		</>
	);
}

function OrganizationSwitcher({ orgId }: { readonly orgId: string | undefined }) {
	const organizations = useOrganizations();
	const [, navigate] = useLocation();
	const known = organizations.data ?? [];
	if (known.length === 0) return null;
	const isListed = known.some(({ id }) => id === orgId);
	return (
		<NativeSelect
			className="organization-select"
			aria-label="Organization"
			value={isListed ? orgId : ""}
			onChange={(event) => {
				if (event.currentTarget.value !== "") navigate(organizationPath(event.currentTarget.value));
			}}
			data={[
				...(isListed ? [] : [{ value: "", label: "Choose an organization" }]),
				...known.map(({ id, name }) => ({ value: id, label: name })),
			]}
		/>
	);
}

function AccountMenu() {
	const account = useAsk("GET /account", {});
	const signOut = useChange("POST /sign-out", () => {
		queryClient.clear();
		leaveFor("/sign-in?next=%2Fdashboard%2F");
	});
	return (
		<Menu position="bottom-end">
			<Menu.Target>
				<Button variant="default" loading={signOut.isPending}>
					Account
				</Button>
			</Menu.Target>
			<Menu.Dropdown>
				<Menu.Label>{account.data?.email}</Menu.Label>
				<Menu.Item component={Link} href="/account">
					Your account
				</Menu.Item>
				<Menu.Item component={Link} href="/organizations">
					Organizations
				</Menu.Item>
				<Menu.Item component="a" href="/docs">
					API documentation
				</Menu.Item>
				<Menu.Divider />
				<Menu.Item onClick={() => signOut.mutate({})}>Sign out</Menu.Item>
			</Menu.Dropdown>
		</Menu>
	);
}
