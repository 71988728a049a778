/**
 * Loading states and errors of API requests. A loading state names what it waits for. An error
 * shows the API's own message and, if it can help, a button to try again.
 */

import { Button } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { RECENT_SIGN_IN_MINUTES } from "../../../src/domain/defaults";
import { CapstanError, needsPasskey } from "../api";
import { IconCloudOff, IconRefresh } from "../icons";
import { confirmIdentity } from "../identity";
import { Note } from "./card";
import { CopyChip } from "./copy-chip";
import { errorText } from "./field-errors";
import { Icon } from "./icon";

export function Loading({ what }: { readonly what: string }) {
	return (
		<div role="status">
			<span className="sr">Loading {what}…</span>
			<div className="skel" aria-hidden="true">
				<i />
				<i />
				<i />
				<i />
			</div>
		</div>
	);
}

function titleOf(error: Error): string {
	if (!(error instanceof CapstanError)) return "The server did not answer";
	if (error.status === 403) return "You do not have permission";
	if (error.status === 404) return "Not found";
	return error.status >= 500 ? "The server failed" : "The request was not accepted";
}

/** Why a request failed, in the words of the screen. */
export const problemText = (error: Error) =>
	error instanceof CapstanError ? errorText(error) : "Check your connection and try again.";

function RequestId({ error }: { readonly error: Error }) {
	if (!(error instanceof CapstanError) || error.requestId === "") return null;
	return <CopyChip value={error.requestId} label={`req ${error.requestId.slice(0, 8)}`} />;
}

/** Why a change was refused, above the buttons of its form. */
export function Problem({ error, onRetry }: { readonly error: Error; readonly onRetry?: (() => void) | undefined }) {
	if (error instanceof CapstanError && error.code === "recent_sign_in_required") {
		return <ConfirmFirst byPasskey={needsPasskey(error)} onConfirmed={onRetry} />;
	}
	return (
		<Note tone="bad" title={titleOf(error)} isAlert>
			<span>{problemText(error)}</span>
			<div className="row wrap">
				{onRetry === undefined ? null : (
					<Button size="xs" variant="default" onClick={onRetry}>
						Try again
					</Button>
				)}
				<RequestId error={error} />
			</div>
		</Note>
	);
}

/** In place of what could not be loaded. The rest of the screen stays. */
function NotLoaded({
	what,
	error,
	onRetry,
}: {
	readonly what: string;
	readonly error: Error;
	readonly onRetry: () => void;
}) {
	// A refusal has its reason, and would be the same again.
	const isRefused = error instanceof CapstanError && (error.status < 403 || (error.status > 404 && error.status < 429));
	if (isRefused || (error instanceof CapstanError && error.code === "recent_sign_in_required")) {
		return <Problem error={error} onRetry={onRetry} />;
	}
	return (
		<div className="card empty" role="alert">
			<Icon of={IconCloudOff} size="l" />
			<strong className="strong">{`${what.slice(0, 1).toUpperCase()}${what.slice(1)} could not be loaded`}</strong>
			<div className="said">
				{titleOf(error)}. {problemText(error)}
			</div>
			<div className="row">
				<Button variant="default" leftSection={<Icon of={IconRefresh} size="s" />} onClick={onRetry}>
					Try again
				</Button>
				<RequestId error={error} />
			</div>
		</div>
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
			<div role="status">
				<Note tone="ok" title="Confirmed">
					Continue with your form.
				</Note>
			</div>
		);
	}
	return (
		<Note tone="warn" title="Confirm it's you to continue" isAlert>
			<span>
				This needs a sign-in {byPasskey ? "with a passkey " : ""}from the last {RECENT_SIGN_IN_MINUTES} minutes. Nothing
				was changed, and your input is still here.
			</span>
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
		</Note>
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
	if (query.isError) return <NotLoaded what={what} error={query.error} onRetry={() => void query.refetch()} />;
	return <Loading what={what} />;
}
