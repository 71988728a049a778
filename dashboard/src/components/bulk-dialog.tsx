/**
 * One act on several things, with one confirmation. A dry run of each says before what happens to
 * it, and which are refused and why. The requests run one after the other; each thing that fails is
 * named with its reason and can be tried again, and "Stop" ends between two of them.
 */
import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useRef, useState } from "react";
import { mayAnswerLater, queryClient } from "../api";
import { Answer, problemText } from "./answer";
import { Note } from "./card";
import { FormDialog } from "./form-dialog";
import { notify } from "./notify";
import { countOf, countText } from "./size";

type Key = string | number;

interface BulkProps<Item> {
	readonly title: string;
	/** Label of the button, e.g. `Delete 3 bundles`. */
	readonly action: (count: number) => string;
	readonly noun: readonly [one: string, many: string];
	/** The act in the past, e.g. `deleted`. */
	readonly done: string;
	readonly items: readonly Item[];
	readonly keyOf: (item: Item) => Key;
	readonly nameOf: (item: Item) => string;
	/**
	 * Says what happens to the item. Answers a refusal, or throws, if the act does not apply to it.
	 * Changes nothing.
	 */
	readonly plan: (item: Item) => Promise<string | Refusal>;
	readonly act: (item: Item) => Promise<unknown>;
	readonly isDestructive?: boolean;
	readonly isReady?: boolean;
	/** Called with each item for which the act is done. */
	readonly onDone: (item: Item) => void;
	readonly onClose: () => void;
	/** Fields of the act, before the items. */
	readonly children?: ReactNode;
}

interface Refusal {
	readonly refusal: string;
}
type Planned = string | Refusal;

/** So many leave refusals and buttons in sight. */
const MOST_UNFOLDED = 8;
/** More take long enough to say how many are checked. */
const QUICKLY_CHECKED = 20;

/** Dry runs at the same time. */
const AT_ONCE = 4;

const reasonOf = (error: unknown) => problemText(error instanceof Error ? error : new Error(String(error)));

async function planAll<Item>(
	{ items, keyOf, plan }: Pick<BulkProps<Item>, "items" | "keyOf" | "plan">,
	onPlanned: (count: number) => void,
) {
	const planned = new Map<Key, Planned>();
	const left = [...items];
	const work = async () => {
		for (let item = left.shift(); item !== undefined; item = left.shift()) {
			try {
				planned.set(keyOf(item), await plan(item));
			} catch (error) {
				// Without an answer of the server nothing is known about the item.
				if (mayAnswerLater(error)) throw error;
				planned.set(keyOf(item), { refusal: reasonOf(error) });
			}
			onPlanned(planned.size);
		}
	};
	await Promise.all(Array.from({ length: AT_ONCE }, work));
	return planned;
}

export function BulkDialog<Item>(props: BulkProps<Item>) {
	const { action, noun, done, items, keyOf, nameOf, act, isDestructive = false, isReady = true } = props;
	const [one, many] = noun;
	// The selection shrinks with each item that is done; the dialog stays about all of them.
	const [{ title, chosen }] = useState({ title: props.title, chosen: items });
	const [checked, setChecked] = useState(0);
	const plan = useQuery({
		queryKey: ["dry run", "bulk", title, chosen.map(keyOf)],
		queryFn: () => planAll({ ...props, items: chosen }, setChecked),
		staleTime: Number.POSITIVE_INFINITY,
		gcTime: 0,
		retry: false,
	});
	const [finished, setFinished] = useState<ReadonlySet<Key>>(new Set());
	const [failures, setFailures] = useState<ReadonlyMap<Key, string>>(new Map());
	const [isRunning, setRunning] = useState(false);
	const isStopped = useRef(false);
	const refusalOf = (item: Item) => {
		const planned = plan.data?.get(keyOf(item));
		return typeof planned === "object" ? planned.refusal : undefined;
	};
	const of = { keyOf, nameOf, many };
	const possible = chosen.filter((item) => refusalOf(item) === undefined);
	const left = possible.filter((item) => !finished.has(keyOf(item)));
	const run = async () => {
		isStopped.current = false;
		setRunning(true);
		setFailures(new Map());
		let succeeded = 0;
		for (const item of left) {
			if (isStopped.current) break;
			try {
				await act(item);
				succeeded++;
				setFinished((before) => new Set(before).add(keyOf(item)));
				props.onDone(item);
			} catch (error) {
				setFailures((before) => new Map(before).set(keyOf(item), reasonOf(error)));
				// The same would happen to all others.
				if (mayAnswerLater(error)) break;
			}
		}
		void queryClient.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "dry run" });
		setRunning(false);
		if (succeeded < left.length) return;
		notify(`${countOf(possible.length, one, many)} ${done}.`);
		props.onClose();
	};
	const close = () => {
		if (isRunning) isStopped.current = true;
		else props.onClose();
	};
	return (
		<FormDialog
			title={title}
			action={action(left.length)}
			isDestructive={isDestructive}
			isPending={isRunning}
			waiting={`${countText(finished.size)} of ${countOf(possible.length, one, many)} ${done}…`}
			stop={
				isRunning ? (
					<Button variant="subtle" disabled={false} onClick={close}>
						Stop
					</Button>
				) : undefined
			}
			isReady={isReady && plan.isSuccess && left.length > 0}
			onClose={close}
			onSubmit={() => void run()}
		>
			{props.children}
			{plan.isPending && chosen.length > QUICKLY_CHECKED ? (
				<p className="soft small" role="status">
					Checking {countText(checked)} of {countOf(chosen.length, one, many)}. Nothing is changed yet.
				</p>
			) : null}
			<Answer query={plan} what={`the ${many}`}>
				{(planned) => (
					<>
						{failures.size === 0 || isRunning ? null : (
							<Note
								tone="bad"
								isAlert
								title={`${countText(finished.size)} of ${countOf(possible.length, one, many)} ${done}`}
							>
								<BulkList {...of} items={left} textOf={(item) => failures.get(keyOf(item)) ?? "Not tried yet."} />
							</Note>
						)}
						{possible.length === chosen.length ? null : (
							<Note tone="warn" title={`${countOf(chosen.length - possible.length, one, many)} cannot be ${done}`}>
								<BulkList
									{...of}
									items={chosen.filter((item) => refusalOf(item) !== undefined)}
									textOf={(item) => refusalOf(item) ?? null}
								/>
							</Note>
						)}
						{failures.size > 0 || left.length === 0 ? null : (
							<BulkList
								{...of}
								label={`${countOf(left.length, one, many)} of the selection`}
								items={left}
								textOf={(item) => {
									const text = planned.get(keyOf(item));
									return typeof text === "string" ? text : null;
								}}
							/>
						)}
					</>
				)}
			</Answer>
		</FormDialog>
	);
}

/** Each by name. Those beyond the first are folded, so that the button stays in sight. */
function BulkList<Item>({
	label,
	items,
	keyOf,
	nameOf,
	textOf,
	many,
}: Pick<BulkProps<Item>, "items" | "keyOf" | "nameOf"> & {
	readonly label?: string;
	readonly textOf: (item: Item) => string | null;
	readonly many: string;
}) {
	const [isUnfolded, setUnfolded] = useState(false);
	const shown = isUnfolded ? items : items.slice(0, MOST_UNFOLDED);
	return (
		<>
			<ul className="plain bulk" {...(label === undefined ? {} : { "aria-label": label })}>
				{shown.map((item) => (
					<li key={keyOf(item)}>
						<strong>
							<bdi>{nameOf(item)}</bdi>
						</strong>{" "}
						{textOf(item)}
					</li>
				))}
			</ul>
			{shown.length === items.length ? null : (
				<div>
					<Button size="xs" variant="default" onClick={() => setUnfolded(true)}>
						Show {countText(items.length - shown.length)} more {many}
					</Button>
				</div>
			)}
		</>
	);
}
