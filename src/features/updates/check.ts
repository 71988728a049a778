/**
 * POST /updates: a device asks which bundle to run. Stock clients read the answer strictly: a
 * success has neither `error` nor `kind`, "no update" always has both with HTTP 200, no field is
 * null, and the answer that reverts to the store build has only a version.
 */
import * as v from "valibot";
import { BUILTIN } from "../../domain/updates/model";
import { REFUSAL_CODES, REFUSAL_KINDS, UNDECIDED_CODES } from "../../domain/updates/refusals";
import { endpoint, Reply } from "../../http/endpoint";
import { acknowledgement, OK } from "../../http/schemas";
import { answerCheck } from "./answer";
import { CHECK_LIMIT_BYTES } from "./device-body";
import { deviceBody, EXAMPLE_DEVICE } from "./device-request";

const updateAnswer = v.strictObject({
	version: v.string(),
	url: v.string(),
	session_key: v.string(),
	sessionKey: v.optional(v.string()),
	checksum: v.string(),
	manifest: v.optional(
		v.array(v.strictObject({ file_name: v.string(), file_hash: v.string(), download_url: v.string() })),
	),
	link: v.optional(v.string()),
	comment: v.optional(v.string()),
});
const builtinAnswer = v.strictObject({ version: v.literal(BUILTIN) });
const refusalAnswer = v.strictObject({
	error: v.picklist([...REFUSAL_CODES, ...UNDECIDED_CODES]),
	message: v.string(),
	kind: v.picklist(REFUSAL_KINDS),
	version: v.optional(v.string()),
	old: v.optional(v.string()),
	major: v.optional(v.boolean()),
	deviceKeyId: v.optional(v.string()),
	bundleKeyId: v.optional(v.string()),
});

/** Every answer of POST /updates. */
export const updatesAnswer = v.union([updateAnswer, builtinAnswer, refusalAnswer]);

export const updatesHealth = endpoint({
	method: "GET",
	path: "/updates",
	tag: "Devices",
	summary: "Whether update checks are answered",
	access: { public: "It shows only that the Worker answers." },
	response: acknowledgement,
	errors: [],
	example: { response: OK },
	async handle() {
		return OK;
	},
});

export const checkUpdate = endpoint({
	method: "POST",
	path: "/updates",
	tag: "Devices",
	summary: "Ask, as a device, which bundle to run",
	description: [
		'HTTP 200 with a bundle, with `{"version":"builtin"}` (go back to the store build), or with `error`,',
		"`message` and `kind` when there is nothing to do:",
		"`up_to_date`, `blocked` by a rule of the channel, or `failed`.",
	],
	access: { public: "Devices have no key. They get the bundle that their app's channel offers them." },
	body: deviceBody,
	response: updatesAnswer,
	errors: [],
	example: {
		body: EXAMPLE_DEVICE,
		response: {
			version: "1.4.0-pr.128",
			url: "https://updates.example.com/files/download/…?expires=…&signature=…",
			session_key: "",
			checksum: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		},
	},
	bodyLimitBytes: CHECK_LIMIT_BYTES,
	async handle(context) {
		const { answer, headers } = await answerCheck({ ...context, address: context.actor.ipAddress }, context.input.body);
		return new Reply(200, answer, headers);
	},
});

/** @throws {v.ValiError} for an answer that the endpoint does not declare */
export function verifyAnswer(answer: unknown): void {
	v.parse(updatesAnswer, answer);
}
