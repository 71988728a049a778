/**
 * One delivery: its result as a sentence, the next attempt, and of each attempt its response and
 * its request. A response is text of a stranger and is shown as text only.
 */
import { Button, Code } from "@mantine/core";
import { useEffect, useState } from "react";
import { type AnswerOf, useAsk, useChange } from "../../api";
import { Answer, Problem } from "../../components/answer";
import { Note } from "../../components/card";
import { useCopy } from "../../components/copy-chip";
import { clockText } from "../../components/dates";
import { notify } from "../../components/notify";
import { CodeBlock } from "../../components/secret";
import { durationText } from "../../components/size";
import { Time } from "../../components/time";
import { requestText, responseText } from "./attempt-texts";
import { curlCommand, isSigned } from "./curl-command";

export type Delivery = AnswerOf<"GET /webhook/delivery">[number];
type Attempt = AnswerOf<"GET /webhook/delivery/attempts">["attempts"][number];

export function DeliveryAttempts({
	orgId,
	id,
	delivery,
	isEnabled,
}: {
	readonly orgId: string;
	readonly id: string;
	/** As the list has it, which is asked again more often. */
	readonly delivery: Delivery;
	readonly isEnabled: boolean;
}) {
	const { state, attempts: count, last_attempt_at } = delivery;
	const pace = state === "pending" ? { everyMs: 3_000 } : {};
	const answer = useAsk("GET /webhook/delivery/attempts", { query: { orgId, id } }, pace);
	const { data, refetch } = answer;
	const isBehind = data !== undefined && data.delivery.last_attempt_at !== last_attempt_at;
	useEffect(() => {
		if (isBehind) void refetch();
	}, [isBehind, refetch]);
	const replay = useChange("POST /webhook/delivery/replay", () => notify("The event is queued again."));
	const stop = useChange("POST /webhook/delivery/stop", () => notify("Stopped. No further attempt is made."));
	return (
		<Answer query={answer} what="the attempts">
			{({ attempts, delivery: known }) => (
				<>
					<strong className="strong">
						<Result delivery={isBehind ? delivery : known} />
					</strong>
					{replay.error === null ? null : <Problem error={replay.error} />}
					{stop.error === null ? null : <Problem error={stop.error} />}
					<div className="row wrap">
						<Button
							size="xs"
							variant="default"
							disabled={!isEnabled}
							loading={replay.isPending}
							onClick={() => replay.mutate({ body: { orgId, id } })}
						>
							{state === "pending" ? "Retry now" : "Replay"}
						</Button>
						{state === "pending" ? (
							<Button
								size="xs"
								variant="subtle"
								loading={stop.isPending}
								onClick={() => stop.mutate({ body: { orgId, id } })}
							>
								Stop trying
							</Button>
						) : null}
						<span className="muted">
							{isEnabled
								? "The receiver gets the same webhook-id, so it can tell a repetition."
								: "The webhook is disabled. Enable it to send the event again."}
						</span>
					</div>
					{attempts.length === 0 ? (
						count === 0 ? null : (
							<Note>Request and response of these attempts were not kept.</Note>
						)
					) : (
						<Attempts key={attempts.length} attempts={attempts} />
					)}
				</>
			)}
		</Answer>
	);
}

function Result({ delivery }: { readonly delivery: Delivery }) {
	const { state, attempts, status_code, error, next_attempt_at } = delivery;
	if (state === "delivered") {
		return <>Delivered{status_code === null ? "" : `: the receiver answered ${status_code}`}.</>;
	}
	const failure = error === null ? "" : `${error.slice(0, 1).toUpperCase()}${error.slice(1)}. `;
	if (state === "failed") return <>{failure}There is no further attempt.</>;
	if (state === "stopped") return <>{failure}A person stopped the attempts.</>;
	const isDue = next_attempt_at === null || Date.parse(next_attempt_at) <= Date.now();
	return (
		<>
			{failure}
			{isDue ? (
				attempts === 0 ? (
					"Queued."
				) : (
					"The next attempt is due."
				)
			) : (
				<>
					Next attempt <Time value={next_attempt_at} />.
				</>
			)}
		</>
	);
}

function Attempts({ attempts }: { readonly attempts: readonly Attempt[] }) {
	const [chosen, setChosen] = useState(attempts.length - 1);
	const attempt = attempts[chosen] ?? attempts.at(-1);
	if (attempt === undefined) return null;
	return (
		<>
			{attempts.length === 1 ? null : (
				<fieldset className="seg wrap" aria-label="Attempts">
					{attempts.map(({ number, at }, index) => (
						<button
							type="button"
							key={number}
							aria-pressed={attempt.number === number}
							onClick={() => setChosen(index)}
						>
							{number} · {clockText(at)}
						</button>
					))}
				</fieldset>
			)}
			<CodeBlock label={`Response, ${resultText(attempt)}`} text={responseText(attempt)} />
			{attempt.response?.truncated === true ? <span className="muted">The response is longer than this.</span> : null}
			<CodeBlock label="Request" text={requestText(attempt.request)} />
			<Curl request={attempt.request} />
		</>
	);
}

function Curl({ request }: Pick<Attempt, "request">) {
	const { isCopied, copy } = useCopy(curlCommand(request));
	return (
		<div className="row wrap">
			<Button size="xs" variant="default" disabled={false} aria-live="polite" onClick={copy}>
				{isCopied ? "Copied" : "Copy as curl"}
			</Button>
			<span className="muted">
				Signatures and the path of the address are not shown. The command takes the address from{" "}
				<Code>WEBHOOK_URL</Code>
				{isSigned(request) ? (
					<>
						, and signs again with <Code>WEBHOOK_SECRET</Code>
					</>
				) : null}
				.
			</span>
		</div>
	);
}

const resultText = ({ status_code, duration_ms }: Attempt) =>
	`${status_code === null ? "none" : status_code} after ${durationText(duration_ms)}`;
