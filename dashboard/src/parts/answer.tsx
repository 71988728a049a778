/**
 * What stands where an answer of the API is awaited or did not come. A wait always says what it is for; a refusal is shown in the API's own
 * words, with a way to try again.
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

function remedyOf(error: Error): string {
	if (!(error instanceof CapstanError)) return "The server did not answer. Look at your connection and try again.";
	return error.message;
}

export function Problem({ error, onRetry }: { readonly error: Error; readonly onRetry?: (() => void) | undefined }) {
	const isRefused = error instanceof CapstanError && error.status === 403;
	if (error instanceof CapstanError && error.code === "recent_sign_in_required") {
		return <ConfirmFirst byPasskey={needsPasskey(error)} onConfirmed={onRetry} />;
	}
	return (
		<Alert color="red" title={isRefused ? "You may not do this" : "That did not work"} role="alert">
			<Stack gap="xs" align="flex-start">
				<Text size="sm">{remedyOf(error)}</Text>
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

/** Shown where the reader closed the dialog that asks who they are. */
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
					This needs a sign-in {byPasskey ? "with a passkey " : ""}of the last 15 minutes. Nothing was changed, and your
					input is still here.
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

/** Shows the data of a query, or why there is none. */
export function Answer<Data>({
	query,
	what,
	children,
}: {
	readonly query: UseQueryResult<Data, Error>;
	/** What is awaited, e.g. `channels`. */
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
