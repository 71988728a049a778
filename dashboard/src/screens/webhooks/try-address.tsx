/**
 * A test event for the address in a form, before it is saved: the button, and the receiver's
 * answer, which is text of a stranger and shown as text only. The answer goes when the address
 * changes.
 */
import { Button, Group } from "@mantine/core";
import { type RequestOf, useChange } from "../../api";
import { Problem } from "../../components/answer";
import { Note } from "../../components/card";
import { CodeBlock } from "../../components/secret";
import { capital } from "../../components/setting-words";
import { durationText } from "../../components/size";
import { responseText } from "./attempt-texts";

type Body = RequestOf<"POST /webhook/try">["body"];

export function TryAddress({ body, isSigned }: { readonly body: Body; readonly isSigned: "own" | "trial" | "no" }) {
	const attempt = useChange("POST /webhook/try");
	const of = attempt.variables?.body;
	const isCurrent = JSON.stringify(of) === JSON.stringify(body);
	const answer = isCurrent ? attempt.data : undefined;
	return (
		<>
			<Group gap="sm">
				<Button
					variant="default"
					loading={attempt.isPending}
					disabled={body.url.trim() === ""}
					onClick={() => attempt.mutate({ body })}
				>
					Test this address
				</Button>
				<span className="muted">Sends a test event to it. Nothing is saved.</span>
			</Group>
			{!isCurrent || attempt.error === null ? null : <Problem error={attempt.error} />}
			{answer === undefined ? null : (
				<Note
					tone={answer.error === null ? "ok" : "warn"}
					title={`${
						answer.error === null ? `The receiver answered ${answer.status_code}` : capital(answer.error)
					} after ${durationText(answer.duration_ms)}`}
					isAlert
				>
					{isSigned === "trial" ? (
						<span>
							The event is signed with a secret of this test alone, because the webhook has none yet. A server that
							verifies signatures refuses it.
						</span>
					) : isSigned === "own" ? (
						<span>The event is signed with the webhook's secret.</span>
					) : null}
				</Note>
			)}
			{answer == null || answer.response === null ? null : (
				<CodeBlock label="Answer to the test" text={responseText(answer)} />
			)}
		</>
	);
}
