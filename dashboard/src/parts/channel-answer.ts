/** Says what a change of a channel came to: it is done, or it waits for somebody's approval. */
import type { AnswerOf } from "../api";
import { say } from "./say";

export function sayChanged(answer: AnswerOf<"POST /channel">, done: string): void {
	say(answer.status === "pending_approval" ? answer.message : done);
}
