/** Catches a screen that cannot be shown, which mostly is one of an older build whose files are gone: loading the page anew mends that. */
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
			<Alert color="red" title="This screen cannot be shown" role="alert">
				<Stack gap="xs" align="flex-start">
					<Text size="sm">A newer version of the dashboard may be in place; load the page anew.</Text>
					<Button size="xs" variant="default" onClick={() => location.reload()}>
						Load anew
					</Button>
				</Stack>
			</Alert>
		);
	}
}
