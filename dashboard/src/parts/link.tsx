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
