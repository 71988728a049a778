/**
 * POST /stats: devices report events, as one object or an array. Clients repeat requests without an
 * answer, so the id of an event is a hash of its content and it is counted once. A batch has one
 * result per event, so an invalid event does not affect the others. An event with an unknown action
 * still shows that the device is active.
 */
import * as v from "valibot";
import { endpoint } from "../../http/endpoint";
import { optional, publicAppId, uuid } from "../../http/schemas";
import { EXAMPLE_DEVICE } from "../updates/device-request";
import { accept, statusOf } from "./accept";
import { LONGEST_REPORT_TEXTS } from "./report-body";

const MOST_EVENTS = 1_000;
export const BODY_LIMIT_BYTES = 256 * 1024;

const cutText = (longest: number) =>
	optional(
		v.pipe(
			v.string(),
			v.transform((value) => value.slice(0, longest)),
		),
	);
const texts = Object.fromEntries(
	Object.entries(LONGEST_REPORT_TEXTS).map(([name, longest]) => [name, cutText(longest)]),
) as { [Name in keyof typeof LONGEST_REPORT_TEXTS]: ReturnType<typeof cutText> };

export const eventSchema = v.object({
	app_id: publicAppId,
	device_id: uuid,
	...texts,
	is_emulator: optional(v.boolean()),
	is_prod: optional(v.boolean()),
	timestamp: optional(v.union([v.number(), v.string()])),
	metadata: optional(v.unknown()),
});

const remark = {
	not_counted: v.optional(v.picklist(["too_old", "too_many_reports"])),
	note: v.optional(v.picklist(["in_the_future"])),
	message: v.optional(v.string()),
};
const oneAnswer = v.strictObject({ status: v.literal("ok"), ...remark });
const refusedAnswer = v.strictObject({ status: v.literal("error"), error: v.string(), message: v.string() });
const batchAnswer = v.strictObject({
	status: v.literal("ok"),
	results: v.array(
		v.strictObject({
			status: v.picklist(["ok", "error"]),
			index: v.number(),
			error: v.optional(v.string()),
			...remark,
		}),
	),
});

const statsAnswer = v.union([oneAnswer, refusedAnswer, batchAnswer]);

export const reportStats = endpoint({
	method: "POST",
	path: "/stats",
	tag: "Devices",
	summary: "Report, as a device, what happened",
	description: [
		"One event or an array of events, of at most four apps.",
		"A repeated event gets the same answer and is counted once.",
		"In a batch every event has its own result, so an invalid one is no reason to send the others again.",
		"`timestamp` is a time in milliseconds or seconds, or a date and time.",
		"A report that is not counted says so (`not_counted`), and so does one whose time is more than a day",
		"ahead, which counts as of now (`note`).",
	],
	access: { public: "Devices have no key. The answer only shows whether the event was valid." },
	body: v.union([
		v.pipe(v.array(v.unknown()), v.maxLength(MOST_EVENTS, `must have at most ${MOST_EVENTS} events`)),
		eventSchema,
	]),
	bodyLimitBytes: BODY_LIMIT_BYTES,
	response: statsAnswer,
	errors: [],
	example: {
		body: { ...EXAMPLE_DEVICE, action: "set", version_name: "1.4.0", timestamp: 1_795_248_000_000 },
		response: { status: "ok" },
	},
	async handle({ input, ...context }) {
		const items = Array.isArray(input.body) ? input.body : [input.body];
		const parsed = items.map((item) => v.safeParse(eventSchema, item));
		const reports = parsed.flatMap(({ success, output }) => (success ? [output] : []));
		const accepted = await accept({ ...context, address: context.actor.ipAddress }, reports);
		let taken = 0;
		const outcomes = parsed.map((result) => (result.success ? accepted[taken++] : invalid(result.issues)));
		if (!Array.isArray(input.body)) {
			const [outcome] = outcomes;
			if (outcome !== undefined && "error" in outcome) return { status: "error" as const, ...outcome };
			return { status: "ok" as const, ...outcome };
		}
		const results = outcomes.map((outcome, index) => ({ status: statusOf(outcome), index, ...outcome }));
		return { status: "ok" as const, results };
	},
});

function invalid(issues: readonly v.BaseIssue<unknown>[]) {
	const [issue] = issues;
	const path = issue === undefined ? "" : (v.getDotPath(issue) ?? "");
	return { error: "invalid_event", message: `${path === "" ? "the event" : path} is not valid` };
}

/** @throws {v.ValiError} for an answer that the endpoint does not declare */
export function verifyAnswer(answer: unknown): void {
	v.parse(statsAnswer, answer);
}
