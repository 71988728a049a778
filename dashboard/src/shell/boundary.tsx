/**
 * Shown when a screen fails to load. The usual cause is an update that removed the files of the
 * older build; a reload fixes that.
 */
import { Alert, Button, Stack, Text } from "@mantine/core";
import { Component, type ReactNode } from "react";

export class Boundary extends Component<{ readonly children: ReactNode }, { readonly failed: boolean }> {
	override readonly state = { failed: false };

	static getDerivedStateFromError() {
		return { failed: true };
	}

	override render(): ReactNode {
		if (!this.state.failed) return this.props.children;
		return (
			<Alert color="red" title="This page could not be loaded" role="alert">
				<Stack gap="xs" align="flex-start">
					<Text size="sm">The dashboard may have been updated. Reload the page.</Text>
					<Button size="xs" variant="default" onClick={() => location.reload()}>
						Reload page
					</Button>
				</Stack>
			</Alert>
		);
	}
}
