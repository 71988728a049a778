/**
 * The fields of a channel in requests and answers, derived from the tables of
 * src/domain/updates/channel-fields.ts. Requests may spell the rules of rollouts in camelCase or
 * snake_case; camelCase wins where both are sent.
 */
import * as v from "valibot";
import type { ChannelRow, ChannelValues } from "../../db/channels";
import {
	ACCEPTANCE_FIELDS,
	type ChannelField,
	DELIVERY_FIELDS,
	PROTECTION_FIELDS,
	ROLLOUT_RULE_FIELDS,
	SERVED_FIELDS,
	stepsBpsOf,
} from "../../domain/updates/channel-fields";
import { nullableRfc3339, nullableTime, optional } from "../../http/schemas";

const MOST_STEPS = 20;

const whole = (least: number, most: number) =>
	v.pipe(
		v.number(),
		v.integer("must be a whole number"),
		v.minValue(least, `must be at least ${least}`),
		v.maxValue(most, `must be at most ${most}`),
	);
export const basisPoints = v.pipe(
	v.number(),
	v.integer("must be a whole number"),
	v.minValue(0, "must not be negative"),
	v.maxValue(10_000, "must be at most 10000"),
);
export const percentage = v.pipe(
	v.number(),
	v.minValue(0, "must not be negative"),
	v.maxValue(100, "must be at most 100"),
	v.check((value) => Number.isInteger(Math.round(value * 1e6) / 1e4), "must have at most two decimals"),
);
const steps = v.pipe(
	v.array(percentage),
	v.minLength(1, "must have a step; null turns steps off"),
	v.maxLength(MOST_STEPS, `must have at most ${MOST_STEPS} steps`),
	v.check(
		(list) => list.every((step, index) => step > (list[index - 1] ?? 0)),
		"must grow from step to step, and begin above 0",
	),
);
const confidence = v.pipe(
	v.number(),
	v.gtValue(0, "must be more than 0"),
	v.ltValue(1, "must be less than 1"),
	v.check((value) => bpsOf(value * 100) > 0 && bpsOf(value * 100) < 10_000, "must lie between 0.0001 and 0.9999"),
);

export const bpsOf = (percent: number) => Math.round(percent * 100);

type Fields = Readonly<Record<string, ChannelField>>;
type ValueOf<Field> = Field extends { readonly kind: "flag" }
	? boolean
	: Field extends { readonly kind: "choice"; readonly options: readonly (infer Option)[] }
		? Option
		: Field extends { readonly kind: "limit" }
			? number | null
			: Field extends { readonly kind: "steps" }
				? number[] | null
				: Field extends { readonly kind: "names" }
					? string[]
					: Field extends { readonly kind: "time" | "text" }
						? string | null
						: number;
type Values<Table extends Fields> = { [Column in keyof Table as Table[Column]["field"]]: ValueOf<Table[Column]> };

type OptionalValue<Value> = null extends Value
	? v.OptionalSchema<v.NullableSchema<v.GenericSchema<NonNullable<Value>>, undefined>, undefined>
	: ReturnType<typeof optional<v.GenericSchema<Value>>>;

function requested(field: ChannelField): v.GenericSchema {
	const nullable = (schema: v.GenericSchema) => v.optional(v.nullable(schema));
	switch (field.kind) {
		case "flag":
			return optional(v.boolean());
		case "choice":
			return optional(choice(field.options, field.aliases ?? {}));
		case "count":
			return optional(whole(...field.range));
		case "limit":
			return nullable(whole(...field.range));
		case "share":
			return optional(basisPoints);
		case "confidence":
			return optional(confidence);
		case "steps":
			return nullable(steps);
		default:
			throw new Error(`no request schema for ${field.field}; add a case for the kind ${field.kind} to requested()`);
	}
}

function choice(options: readonly string[], aliases: Readonly<Record<string, string>>) {
	const accepted = options.flatMap((option) => [
		option,
		...Object.keys(aliases).filter((alias) => aliases[alias] === option),
	]);
	const schema = v.picklist(accepted, `must be one of ${options.join(", ")}`);
	if (accepted.length === options.length) return schema;
	return v.pipe(
		schema,
		v.transform((value) => aliases[value] ?? value),
	);
}

const bodyOf = <Table extends Fields>(fields: Table) =>
	Object.fromEntries(Object.values(fields).map((field) => [field.field, requested(field)])) as {
		[Field in keyof Values<Table>]: OptionalValue<Values<Table>[Field]>;
	};

type SnakeCase<Name extends string> = Name extends `${infer First}${infer Rest}`
	? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeCase<Rest>}`
	: Name;
type SnakeCased<Entries> = { [Name in keyof Entries & string as SnakeCase<Name>]: Entries[Name] };

export const snakeName = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** The entries under their names, and then under the same names in snake_case. */
function inBothSpellings<const Entries extends v.ObjectEntries>(entries: Entries) {
	const snakeCase = Object.entries(entries).map(([name, schema]) => [snakeName(name), schema]);
	return { ...entries, ...(Object.fromEntries(snakeCase) as SnakeCased<Entries>) };
}

/** The value of a field in a body that may spell it either way. */
export function given<Body, const Field extends keyof Body & string>(body: Body, field: Field): Body[Field] {
	const other = body[snakeName(field) as Field];
	return body[field] === undefined ? other : body[field];
}

export const deliveryBody = bodyOf(DELIVERY_FIELDS);
export const rolloutRulesBody = inBothSpellings(bodyOf(ROLLOUT_RULE_FIELDS));
export const acceptanceBody = inBothSpellings(bodyOf(ACCEPTANCE_FIELDS));

const SETTINGS: Fields = { ...DELIVERY_FIELDS, ...ROLLOUT_RULE_FIELDS, ...ACCEPTANCE_FIELDS };

/** The columns of the delivery and rollout settings that a body names. */
export function requestedColumns(body: Readonly<Record<string, unknown>>): ChannelValues {
	const named = Object.entries(SETTINGS).map(([column, { kind, field }]) => {
		const value = given(body, field);
		if (value === undefined || value === null) return [column, value] as const;
		if (kind === "flag") return [column, value === true ? 1 : 0] as const;
		if (kind === "steps") return [column, JSON.stringify((value as number[]).map(bpsOf))] as const;
		return [column, kind === "confidence" ? bpsOf(Number(value) * 100) : value] as const;
	});
	return Object.fromEntries(named.filter(([, value]) => value !== undefined));
}

function answered(field: ChannelField): v.GenericSchema {
	switch (field.kind) {
		case "flag":
			return v.boolean();
		case "choice":
			return v.picklist(field.options);
		case "limit":
			return v.nullable(v.number());
		case "steps":
			return v.nullable(v.array(v.number()));
		case "names":
			return v.array(v.string());
		case "time":
			return nullableTime;
		case "text":
			return v.nullable(v.string());
		default:
			return v.number();
	}
}

/** Schemas of the fields of a table, for an answer. */
export function answerOf<Table extends Fields>(fields: Table) {
	const schemas = Object.values(fields).map((field) => [field.field, answered(field)]);
	return Object.fromEntries(schemas) as {
		[Field in keyof Values<Table>]: v.GenericSchema<Values<Table>[Field]>;
	};
}

/** The fields of a table, as a channel's row has them. */
export function shown<Table extends Fields>(
	fields: Table,
	row: { readonly [Column in keyof Table]: unknown },
): Values<Table> {
	const values: Record<string, unknown> = {};
	for (const column in fields) {
		const field = fields[column];
		if (field !== undefined) values[field.field] = shownValue(field.kind, row[column]);
	}
	return values as Values<Table>;
}

function shownValue(kind: ChannelField["kind"], value: unknown): unknown {
	if (kind === "flag") return value === 1;
	if (kind === "confidence") return Number(value) / 10_000;
	if (kind === "steps") return stepsBpsOf(value as string | null)?.map((bps) => bps / 100) ?? null;
	if (kind === "names") return JSON.parse(String(value));
	return kind === "time" ? nullableRfc3339(value as number | null) : value;
}

const { version_id: _stable, rollout_version_id: _rollout, rollout_id: _id, ...moving } = SERVED_FIELDS;
/** The rollout of a channel, the bundle and the id apart. */
export const ROLLOUT_FIELDS = moving;
export const RULE_FIELDS = { ...ROLLOUT_RULE_FIELDS, ...ACCEPTANCE_FIELDS, ...PROTECTION_FIELDS } as const;

/** The share that a new rollout begins with if the request names none: the first step. */
export function firstStepBps(
	body: v.InferOutput<v.ObjectSchema<typeof rolloutRulesBody, undefined>>,
	channel: ChannelRow | undefined,
): number | undefined {
	const rolloutSteps = given(body, "rolloutSteps");
	if (rolloutSteps !== undefined) return rolloutSteps?.map(bpsOf)[0];
	return stepsBpsOf(channel?.rollout_steps ?? null)?.[0];
}
