/**
 * Ids, hashes, addresses and commands to copy. The check and the live region say that the clipboard
 * has the whole value.
 */
import { useEffect, useState } from "react";
import { IconCheck, IconCopy } from "../icons";
import { Icon } from "./icon";

const SHOWN_MS = 1_500;
const LONGEST = 24;
const HEAD = 8;
const TAIL = 6;

/** `5b389d06…f25b2f`: both ends of a long id identify it. */
export function shortened(value: string): string {
	return value.length <= LONGEST ? value : `${value.slice(0, HEAD)}…${value.slice(-TAIL)}`;
}

/** Copies a text, and says for 1.5 s that it did. */
export function useCopy(value: string): { readonly isCopied: boolean; readonly copy: () => void } {
	const [copiedAt, setCopiedAt] = useState(0);
	useEffect(() => {
		if (copiedAt === 0) return;
		const timer = setTimeout(() => setCopiedAt(0), SHOWN_MS);
		return () => clearTimeout(timer);
	}, [copiedAt]);
	return {
		isCopied: copiedAt !== 0,
		copy: () => void navigator.clipboard.writeText(value).then(() => setCopiedAt((before) => before + 1)),
	};
}

function Copied({ isCopied }: { readonly isCopied: boolean }) {
	return (
		<span className="sr" role="status">
			{isCopied ? "Copied" : ""}
		</span>
	);
}

export function CopyChip({
	value,
	label,
	isWhole = false,
}: {
	readonly value: string;
	/** Shown instead of the value. */
	readonly label?: string | undefined;
	/** Long values are shortened in the middle unless this is set. */
	readonly isWhole?: boolean;
}) {
	const { isCopied, copy } = useCopy(value);
	return (
		<>
			<button type="button" className="chip" title={value} onClick={copy}>
				<span className="sr">Copy </span>
				<span className="cut">{label ?? (isWhole ? value : shortened(value))}</span>
				{isCopied ? (
					<span className="done t-ok">
						<Icon of={IconCheck} />
					</span>
				) : (
					<Icon of={IconCopy} />
				)}
			</button>
			<Copied isCopied={isCopied} />
		</>
	);
}

/** A copy button without the value, beside a text or in the corner of a block of code. */
export function CopyButton({ value, name }: { readonly value: string; readonly name: string }) {
	const { isCopied, copy } = useCopy(value);
	return (
		<>
			<button
				type="button"
				className="btn ghost icon-only sm"
				title={`Copy ${name}`}
				aria-label={`Copy ${name}`}
				onClick={copy}
			>
				<Icon of={isCopied ? IconCheck : IconCopy} />
			</button>
			<Copied isCopied={isCopied} />
		</>
	);
}
