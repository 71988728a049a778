/** Props that the router passes to each kind of screen. */
export interface OrganizationScreenProps {
	readonly orgId: string;
}
export interface OrganizationItemProps extends OrganizationScreenProps {
	/** The id of the item that the screen shows. */
	readonly item: string;
}
export interface AppScreenProps {
	readonly appId: string;
	/** Undefined until the app is known. */
	readonly orgId: string | undefined;
}

export interface AppItemProps extends AppScreenProps {
	/** The name or id of the item that the screen shows. */
	readonly item: string;
}

export interface AppReleaseProps extends AppScreenProps {
	readonly channel: string;
	/** The id of the release, or its version. */
	readonly release: string;
}
