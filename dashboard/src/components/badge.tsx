/**
 * States as words on a soft ground, and dots beside words. A fact that is normal gets no badge. The
 * colour never says what the word does not.
 */
import type { ReactNode } from "react";
import { isSampleAppId } from "../../../src/domain/sample-app";

export type Tone = "ok" | "warn" | "bad" | "info" | "preview";

export function Badge({
	tone,
	title,
	children,
}: {
	/** None: a neutral fact. */
	readonly tone?: Tone | undefined;
	readonly title?: string | undefined;
	readonly children: ReactNode;
}) {
	return (
		<span className={tone === undefined ? "badge" : `badge ${tone}`} title={title}>
			{children}
		</span>
	);
}

/** Marks a sample app wherever apps are listed, unless its name does. */
export function SampleBadge({ appId, name }: { readonly appId: string; readonly name: string }) {
	return isSampleAppId(appId) && !/sample/i.test(name) ? (
		<Badge tone="preview" title="An app with made-up history">
			Sample
		</Badge>
	) : null;
}

/** Always before or after a word. `ring`: no data. */
export function Dot({ tone = "ring" }: { readonly tone?: Tone | "ring" }) {
	return <span className={`dot ${tone}`} aria-hidden="true" />;
}
