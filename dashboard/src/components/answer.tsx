/**
 * Loading states and errors of API requests. A loading state names what it waits for. An error shows the API's own message and, if it can
 * help, a button to try again.
 */
import { Alert, Button, Center, Group, Loader, Stack, Text } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { CapstanError, needsPasskey } from "../api";
import { confirmIdentity } from "../identity";

export function Loading({ what }: { readonly what: string }) {
	return (
		<Center py="xl" role="status">
			<Group gap="sm">
				<Loader size="sm" aria-hidden="true" />
				<Text c="dimmed">Loading {what}…</Text>
			</Group>
		</Center>
	);
}

function titleOf(error: Error): string {
	if (!(error instanceof CapstanError)) return "The server did not answer";
	if (error.status === 403) return "You do not have permission";
	if (error.status === 404) return "Not found";
	return error.status >= 500 ? "The server failed" : "The request was not accepted";
}

export function Problem({ error, onRetry }: { readonly error: Error; readonly onRetry?: (() => void) | undefined }) {
	if (error instanceof CapstanError && error.code === "recent_sign_in_required") {
		return <ConfirmFirst byPasskey={needsPasskey(error)} onConfirmed={onRetry} />;
	}
	return (
		<Alert color="red" title={titleOf(error)} role="alert">
			<Stack gap="xs" align="flex-start">
				<Text size="sm">{error instanceof CapstanError ? error.message : "Check your connection and try again."}</Text>
				{error instanceof CapstanError && error.requestId !== "" ? (
					<Text size="xs" c="dimmed">
						Request {error.requestId}
					</Text>
				) : null}
				{onRetry === undefined ? null : (
					<Button size="xs" variant="default" onClick={onRetry}>
						Try again
					</Button>
				)}
			</Stack>
		</Alert>
	);
}

/** Shown after the user closed the dialog that confirms their identity. */
function ConfirmFirst({
	byPasskey,
	onConfirmed,
}: {
	readonly byPasskey: boolean;
	readonly onConfirmed: (() => void) | undefined;
}) {
	const [isConfirmed, setConfirmed] = useState(false);
	if (isConfirmed) {
		return (
			<Alert color="green" title="Confirmed" role="status">
				<Text size="sm">Continue with your form.</Text>
			</Alert>
		);
	}
	return (
		<Alert color="orange" title="Confirm it's you to continue" role="alert">
			<Stack gap="xs" align="flex-start">
				<Text size="sm">
					This needs a sign-in {byPasskey ? "with a passkey " : ""}from the last 15 minutes. Nothing was changed, and
					your input is still here.
				</Text>
				<Button
					size="xs"
					variant="default"
					onClick={async () => {
						if (!(await confirmIdentity(byPasskey))) return;
						setConfirmed(true);
						onConfirmed?.();
					}}
				>
					Confirm it's you
				</Button>
			</Stack>
		</Alert>
	);
}

/** Shows the data of a query, its loading state or its error. */
export function Answer<Data>({
	query,
	what,
	children,
}: {
	readonly query: UseQueryResult<Data, Error>;
	/** Name of the loaded data, e.g. `channels`. */
	readonly what: string;
	readonly children: (data: Data) => ReactNode;
}) {
	if (query.data !== undefined) {
		return (
			<>
				{query.isError ? <Problem error={query.error} onRetry={() => void query.refetch()} /> : null}
				{children(query.data)}
			</>
		);
	}
	if (query.isError) return <Problem error={query.error} onRetry={() => void query.refetch()} />;
	return <Loading what={what} />;
}
