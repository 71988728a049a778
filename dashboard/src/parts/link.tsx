/** A link to another screen, in the looks of the component library; wouter keeps it inside the page. */
import { Anchor, Button, type ButtonProps } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "wouter";

export function TextLink({ to, children }: { readonly to: string; readonly children: ReactNode }) {
	return (
		<Anchor component={Link} href={to} underline="always" inherit>
			{children}
		</Anchor>
	);
}

/** An address that a person or a program gave, which leads out of the dashboard; text where it is no web address. */
export function WebLink({ address }: { readonly address: string }) {
	const isWeb = URL.canParse(address) && /^https?:$/.test(new URL(address).protocol);
	if (!isWeb) return address;
	return (
		<Anchor href={address} target="_blank" rel="noopener noreferrer nofollow" underline="always" inherit>
			{address}
		</Anchor>
	);
}

export function ButtonLink({
	to,
	children,
	...props
}: ButtonProps & { readonly to: string; readonly children: ReactNode }) {
	return (
		<Button component={Link} href={to} {...props}>
			{children}
		</Button>
	);
}
