/** A sentence about a release or a change, with links to its versions and channels. */
import { Fragment } from "react";
import type { SentencePart } from "../../../src/domain/words/releases";
import { bundlePath, channelPath } from "../paths";
import { TextLink } from "./link";

export function Sentence({
	who,
	parts,
	appId,
	missing,
}: {
	/** Undefined: the sentence has its subject. */
	readonly who?: string | undefined;
	readonly parts: readonly SentencePart[];
	/** Without an app nothing is a link. */
	readonly appId: string | null;
	/** A version whose bundle is deleted. */
	readonly missing?: string | null;
}) {
	return (
		<>
			{who === undefined ? null : (
				<>
					<strong className="strong">
						<bdi>{who}</bdi>
					</strong>{" "}
				</>
			)}
			{parts.map((part, index) => (
				// biome-ignore lint/suspicious/noArrayIndexKey: the parts of a sentence keep their order
				<Fragment key={index}>{shown(part, appId, missing)}</Fragment>
			))}
		</>
	);
}

function shown(part: SentencePart, appId: string | null, missing: string | null | undefined) {
	if (typeof part === "string") return part;
	if ("channel" in part) {
		const name = (
			<strong className="strong">
				<bdi>{part.channel}</bdi>
			</strong>
		);
		return appId === null ? name : <TextLink to={channelPath(appId, part.channel)}>{name}</TextLink>;
	}
	return appId === null || part.version === missing ? (
		part.version
	) : (
		<TextLink to={bundlePath(appId, part.version)}>{part.version}</TextLink>
	);
}
