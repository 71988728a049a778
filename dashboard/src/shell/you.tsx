/**
 * "You" at the foot of the sidebar: account, organizations, the theme, shortcuts, documentation and
 * sign-out.
 */
import { Menu } from "@mantine/core";
import { Link } from "wouter";
import { leaveFor, queryClient, useAsk, useChange } from "../api";
import { Avatar } from "../components/avatar";
import { useColorScheme } from "../components/color-scheme";
import { Icon } from "../components/icon";
import {
	IconApps,
	IconBook,
	IconCheck,
	IconDeviceDesktop,
	IconDotsVertical,
	IconKeyboard,
	IconLogout,
	IconMoon,
	IconSun,
	IconUser,
} from "../icons";

const THEMES = [
	{ scheme: "light", label: "Light", icon: IconSun },
	{ scheme: "dark", label: "Dark", icon: IconMoon },
	{ scheme: "auto", label: "As the system", icon: IconDeviceDesktop },
] as const;

export function You({ onShortcuts }: { readonly onShortcuts: () => void }) {
	const account = useAsk("GET /account", {});
	const { colorScheme, setColorScheme } = useColorScheme();
	const signOut = useChange("POST /sign-out", () => {
		queryClient.clear();
		leaveFor("/sign-in?next=%2Fdashboard%2F");
	});
	const email = account.data?.email ?? "";
	return (
		<Menu position="top-start" width={216}>
			<Menu.Target>
				<button type="button" className="me">
					<Avatar name={email} />
					<span className="sr">You: </span>
					<span className="cut grow">{email}</span>
					<Icon of={IconDotsVertical} />
				</button>
			</Menu.Target>
			<Menu.Dropdown>
				<Menu.Label>{email}</Menu.Label>
				<Menu.Item component={Link} href="/account" leftSection={<Icon of={IconUser} />}>
					Your account
				</Menu.Item>
				<Menu.Item component={Link} href="/organizations" leftSection={<Icon of={IconApps} />}>
					Organizations
				</Menu.Item>
				<Menu.Divider />
				<Menu.Label>Theme</Menu.Label>
				{THEMES.map(({ scheme, label, icon }) => (
					<Menu.Item
						key={scheme}
						closeMenuOnClick={false}
						leftSection={<Icon of={icon} />}
						rightSection={colorScheme === scheme ? <Icon of={IconCheck} /> : null}
						onClick={() => setColorScheme(scheme)}
					>
						{label}
						{colorScheme === scheme ? <span className="sr"> (chosen)</span> : null}
					</Menu.Item>
				))}
				<Menu.Divider />
				<Menu.Item
					leftSection={<Icon of={IconKeyboard} />}
					rightSection={<span className="kbd">?</span>}
					onClick={onShortcuts}
				>
					Keyboard shortcuts
				</Menu.Item>
				<Menu.Item component="a" href="/docs" leftSection={<Icon of={IconBook} />}>
					Documentation
				</Menu.Item>
				<Menu.Divider />
				<Menu.Item leftSection={<Icon of={IconLogout} />} onClick={() => signOut.mutate({})}>
					Sign out
				</Menu.Item>
			</Menu.Dropdown>
		</Menu>
	);
}
