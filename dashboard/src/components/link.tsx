/** Links: to other screens without a page load, and out of the dashboard. */
import { Button, type ButtonProps } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "wouter";

export function TextLink({ to, children }: { readonly to: string; readonly children: ReactNode }) {
	return (
		<Link href={to} className="link">
			{children}
		</Link>
	);
}

/**
 * An external URL that a user or a CI job entered. Anything but http and https is shown as text.
 */
export function WebLink({ address }: { readonly address: string }) {
	const isWeb = URL.canParse(address) && /^https?:$/.test(new URL(address).protocol);
	if (!isWeb) return address;
	return (
		<a href={address} target="_blank" rel="noopener noreferrer nofollow" className="link">
			{address}
		</a>
	);
}

export function ButtonLink({
	to,
	children,
	...props
}: ButtonProps & { readonly to: string; readonly children: ReactNode }) {
	return (
		<Button component={Link} href={to} disabled={false} {...props}>
			{children}
		</Button>
	);
}
