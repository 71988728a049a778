/** Links: to other screens without a page load, and out of the dashboard. */
import { Button, type ButtonProps } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { commitOfLink } from "../../../src/domain/words/releases";

const COMMIT_LETTERS = 7;

export function TextLink({ to, children }: { readonly to: string; readonly children: ReactNode }) {
	return (
		<Link href={to} className="link">
			{children}
		</Link>
	);
}

/**
 * An external URL that a user or a CI job entered; that of a commit is short. Anything but http and
 * https is shown as text.
 */
export function WebLink({ address }: { readonly address: string }) {
	const isWeb = URL.canParse(address) && /^https?:$/.test(new URL(address).protocol);
	if (!isWeb) return address;
	const commit = commitOfLink(address);
	return (
		<a href={address} title={address} target="_blank" rel="noopener noreferrer nofollow" className="link">
			{commit === null ? address : <span className="mono">{commit.slice(0, COMMIT_LETTERS)}</span>}
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
