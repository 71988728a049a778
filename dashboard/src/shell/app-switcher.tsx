/**
 * The app switcher on top of the sidebar: the apps of the organization, last visited first, then
 * the organizations and "New app". A part of a name or id filters both lists; the arrow keys move
 * between the entries.
 */
import { Popover } from "@mantine/core";
import { type KeyboardEvent, useState } from "react";
import { Link } from "wouter";
import { AppTile } from "../components/avatar";
import { SampleBadge } from "../components/badge";
import { Icon } from "../components/icon";
import { Mark } from "../components/logo";
import { IconCheck, IconPlus, IconSelector } from "../icons";
import { type Organization, useAppsOfOrganization, useOrganizations } from "../organizations";
import { appPath, organizationPath } from "../paths";
import { useOrganizationMay } from "../permissions";
import { visitedApps } from "./visited";

export interface OpenApp {
	readonly appId: string;
	readonly name: string;
	readonly icon: string | null;
}

export function AppSwitcher({
	organization,
	app,
	isOpen,
	onOpen,
}: {
	readonly organization: Organization | undefined;
	readonly app: OpenApp | undefined;
	readonly isOpen: boolean;
	readonly onOpen: (isOpen: boolean) => void;
}) {
	const name = organization?.name ?? "Capstan";
	return (
		<Popover
			opened={isOpen}
			onChange={onOpen}
			position="bottom-start"
			width={288}
			trapFocus
			shadow="none"
			transitionProps={{ duration: 0 }}
		>
			<Popover.Target>
				<button type="button" className="switch" onClick={() => onOpen(!isOpen)}>
					{app === undefined ? (
						<span className="tile ink" aria-hidden="true">
							<Mark />
						</span>
					) : (
						<AppTile appId={app.appId} name={app.name} icon={app.icon} />
					)}
					<span className="sr">Switch app: </span>
					<span className="grow">
						<span className="strong cut">{app?.name ?? name}</span>
						<small className="cut">{app === undefined ? "Organization" : name}</small>
					</span>
					<Icon of={IconSelector} size="s" />
				</button>
			</Popover.Target>
			<Popover.Dropdown aria-label="Switch app">
				{isOpen ? <Choices organization={organization} app={app} onClose={() => onOpen(false)} /> : null}
			</Popover.Dropdown>
		</Popover>
	);
}

/** The arrow keys move between the field and the entries. */
function moveFocus(event: KeyboardEvent<HTMLElement>): void {
	if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
	event.preventDefault();
	const stops = [...event.currentTarget.querySelectorAll<HTMLElement>("input, a")];
	const index = stops.indexOf(document.activeElement as HTMLElement);
	stops.at((index + (event.key === "ArrowDown" ? 1 : -1)) % stops.length)?.focus();
}

function Choices({
	organization,
	app,
	onClose,
}: {
	readonly organization: Organization | undefined;
	readonly app: OpenApp | undefined;
	readonly onClose: () => void;
}) {
	const [part, setPart] = useState("");
	const organizations = useOrganizations();
	const fits = (...texts: readonly string[]) => texts.some((text) => text.toLowerCase().includes(part.toLowerCase()));
	return (
		<search
			className="choices"
			onKeyDown={moveFocus}
			onClick={(event) => {
				if (event.target instanceof Element && event.target.closest("a") !== null) onClose();
			}}
		>
			<input
				className="input"
				data-autofocus
				aria-label="Find an app or organization"
				placeholder="Find an app…"
				value={part}
				onChange={(event) => setPart(event.currentTarget.value)}
				onKeyDown={(event) => {
					if (event.key !== "Enter") return;
					event.currentTarget.parentElement?.querySelector("a")?.click();
				}}
			/>
			{organization === undefined ? null : <Apps organization={organization} app={app} fits={fits} />}
			<div className="nav-heading">Organizations</div>
			<ul className="plain">
				{(organizations.data ?? [])
					.filter(({ name }) => fits(name))
					.map(({ id, name }) => (
						<li key={id}>
							<Link href={organizationPath(id)}>
								<span className="tile ink small-tile" aria-hidden="true">
									{name.slice(0, 1).toUpperCase()}
								</span>
								<span className="cut grow">{name}</span>
								{app === undefined && id === organization?.id ? <Icon of={IconCheck} size="s" /> : null}
							</Link>
						</li>
					))}
			</ul>
		</search>
	);
}

function Apps({
	organization,
	app,
	fits,
}: {
	readonly organization: Organization;
	readonly app: OpenApp | undefined;
	readonly fits: (...texts: readonly string[]) => boolean;
}) {
	const apps = useAppsOfOrganization(organization.id);
	const may = useOrganizationMay(organization.id);
	const visited = visitedApps();
	const rank = (appId: string) => (visited.includes(appId) ? visited.indexOf(appId) : visited.length);
	const found = (apps.data ?? [])
		.filter(({ app_id, name }) => fits(app_id, name))
		.sort((one, other) => rank(one.app_id) - rank(other.app_id));
	return (
		<>
			<div className="nav-heading">Apps</div>
			<ul className="plain">
				{found.map(({ app_id, name, icon_url }) => (
					<li key={app_id}>
						<Link href={appPath(app_id)}>
							<AppTile appId={app_id} name={name} icon={icon_url} />
							<span className="grow">
								<span className="cut strong">
									{name} <SampleBadge appId={app_id} name={name} />
								</span>
								<small className="cut">{app_id}</small>
							</span>
							{app_id === app?.appId ? <Icon of={IconCheck} size="s" /> : null}
						</Link>
					</li>
				))}
				{found.length === 0 ? <li className="none">{apps.isPending ? "Loading…" : "No app with this name."}</li> : null}
				{may("org.create_app") === true && fits("New app") ? (
					<li>
						<Link href={`${organizationPath(organization.id)}?do=new`}>
							<span className="tile-space">
								<Icon of={IconPlus} />
							</span>
							New app
						</Link>
					</li>
				) : null}
			</ul>
		</>
	);
}
