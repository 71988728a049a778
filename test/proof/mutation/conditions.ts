/**
 * Finds every condition that keeps tenants apart, with the parser that vitest brings along: of
 * Kysely's statements, of SQL in templates, of guards, and of the code that decides. Each becomes
 * one mutant, in which that condition alone does not hold anyone back. All of them are written into
 * the source at once, each behind a switch (switch.ts), so the source is compiled only once.
 */
import { parseAst } from "vitest/node";
import { boolParts, clauses } from "./sql-conditions";

export const KINDS = ["where", "join", "sql", "guard", "code"] as const;
export type Kind = (typeof KINDS)[number];

export interface Condition {
	readonly file: string;
	readonly line: number;
	readonly kind: Kind;
	/**
	 * The source text in one line, followed by `#2`, `#3`, … if the same text occurs earlier in the
	 * file.
	 */
	readonly text: string;
	/** The replacement of the condition. */
	readonly becomes: "nothing" | "true" | "false";
	readonly edits: readonly Edit[];
}

/** Inserts and removes text of the source; `*` stands for the number of the mutant. */
interface Edit {
	readonly at: number;
	readonly remove: number;
	readonly insert: string;
	/** Order of several edits at one position: decides which one encloses the others. */
	readonly depth: number;
	readonly closes: boolean;
}

interface Node {
	readonly type: string;
	readonly start: number;
	readonly end: number;
	readonly [name: string]: unknown;
}

/** Files in which every condition of the code decides who may do what. */
const DECIDING_FILES: readonly RegExp[] = [
	/^src\/authz\/(decide|own-work|principal|permissions|member-roles)\.ts$/,
	/^src\/http\/scope\.ts$/,
	/^src\/features\/(keys\/rules|organizations\/member-rules)\.ts$/,
	/^src\/domain\/key-policy\.ts$/,
];
/** Functions that decide in files that do more than that. */
const DECIDING_FUNCTIONS: Readonly<Record<string, readonly string[]>> = {
	"src/http/pipeline/decide.ts": ["authorize", "neededPermissions"],
	"src/http/pipeline/credential-headers.ts": ["findKey"],
	"src/authz/secrets.ts": ["isWellFormedKey"],
	"src/domain/network/ip-allow-list.ts": ["isInRanges", "firstRangeOutside"],
};
/** Functions whose refusals decide; what else they do is handling the request. */
const REFUSING_FUNCTIONS: Readonly<Record<string, readonly string[]>> = {
	"src/http/pipeline/credential.ts": ["identifyCaller"],
	"src/http/pipeline/decide.ts": ["decideRequest", "requireGlobally"],
};
/** Functions that decide wherever they stand. */
const DECIDING_NAMES = /^refuse/;
/** Conditions that decide wherever they stand. */
const DECIDING_TEXT = /\bownWorkOnly\b/;
/**
 * Files of the product that keep no tenants apart: what they clean up goes by its age, what they fetch
 * belongs to nobody here.
 */
const WITHOUT_TENANTS =
	/^src\/(operator|client|pages|schedule|db\/(bootstrap|schema|client)|features\/bundles\/external|http\/(openapi|endpoint))/;
/**
 * Columns and expressions that make a statement's condition one about ownership, identity or
 * validity.
 */
const ABOUT_SCOPE =
	/\b(id|\w+_id|owner_org|\w*key_hash|created_by\w*|role_name|scope_type|email|name|path|value|expires_at_ms|previous_valid_until_ms|deleted_at_ms)\b|^\$\{\w+\(.*\)\}$/s;

export function isMutated(file: string): boolean {
	return /^src\/.*\.ts$/.test(file) && !WITHOUT_TENANTS.test(file);
}

const CONDITION_METHODS = new Set(["where", "whereRef", "having", "on", "onRef"]);
const JOIN_METHODS = new Set(["innerJoin", "leftJoin"]);

export function findConditions(file: string, source: string): Condition[] {
	const found: Omit<Condition, "text">[] = [];
	const texts: string[] = [];
	const lineOf = (offset: number) => source.slice(0, offset).split("\n").length;
	const add = (
		node: { readonly start: number; readonly end: number },
		kind: Kind,
		becomes: Condition["becomes"],
		edits: Condition["edits"],
	) => {
		found.push({ file, line: lineOf(node.start), kind, becomes, edits });
		texts.push(source.slice(node.start, node.end).replace(/\s+/g, " ").trim());
	};

	walk(parseAst(source, { lang: "ts" }) as unknown as Node, [], (node, ancestors) => {
		const depth = ancestors.length;
		if (node.type === "CallExpression") visitCall(node, depth, source, add);
		if (node.type === "TaggedTemplateExpression") visitTemplate(node, depth, source, add);
		if (decides(file, node, ancestors, source)) visitCode(node, ancestors, add);
	});

	const seen = new Map<string, number>();
	return found.map((condition, index) => {
		const plain = `${texts[index]} -> ${condition.becomes}`;
		const count = (seen.get(plain) ?? 0) + 1;
		seen.set(plain, count);
		return { ...condition, text: count === 1 ? (texts[index] ?? "") : `${texts[index]} #${count}` };
	});
}

type Add = (
	node: { readonly start: number; readonly end: number },
	kind: Kind,
	becomes: Condition["becomes"],
	edits: Condition["edits"],
) => void;

/** `before` and `after` around a piece of the source. */
function around(start: number, end: number, before: string, after: string, depth: number): Edit[] {
	return [
		{ at: start, remove: 0, insert: before, depth, closes: false },
		{ at: end, remove: 0, insert: after, depth, closes: true },
	];
}

function visitCall(node: Node, depth: number, source: string, add: Add): void {
	const callee = node.callee as Node;
	const given = node.arguments as readonly Node[];
	const [first] = given;
	if (callee.type === "Identifier" && callee.name === "guard" && first !== undefined) {
		add(first, "guard", "true", around(first.start, first.end, "__mutation.condition(*, ", ")", depth));
		return;
	}
	if (callee.type !== "MemberExpression" || callee.computed === true || first === undefined) return;
	const property = callee.property as Node;
	const name = String(property.name);
	if (CONDITION_METHODS.has(name)) {
		// `on` is a method of other things as well, such as the router.
		if (first.type === "MemberExpression" || !ABOUT_SCOPE.test(source.slice(first.start, node.end))) return;
		// x.where(a) becomes __mutation.call(1, x, "where", a): the receiver is not written twice.
		add({ start: property.start, end: node.end }, "where", "nothing", called("call", node, source, name, depth));
	} else if (JOIN_METHODS.has(name) && given.length === 3) {
		add({ start: property.start, end: node.end }, "join", "nothing", called("join", node, source, name, depth));
	} else if (name === "and" && first.type === "ArrayExpression") {
		for (const element of first.elements as readonly (Node | null)[]) {
			if (element === null || element.type === "SpreadElement") continue;
			if (!ABOUT_SCOPE.test(source.slice(element.start, element.end))) continue;
			add(element, "where", "true", around(element.start, element.end, "__mutation.condition(*, ", ")", depth + 2));
		}
	}
}

function called(helper: "call" | "join", node: Node, source: string, name: string, depth: number): Edit[] {
	const receiver = (node.callee as Node).object as Node;
	const first = (node.arguments as readonly Node[])[0] ?? node;
	const lineEnds = source.slice(receiver.end, first.start).replace(/[^\n]/g, "");
	return [
		{ at: node.start, remove: 0, insert: `__mutation.${helper}(*, `, depth, closes: false },
		{
			at: receiver.end,
			remove: first.start - receiver.end,
			insert: `${lineEnds}, "${name}", `,
			depth,
			closes: true,
		},
	];
}

function visitTemplate(node: Node, depth: number, source: string, add: Add): void {
	const tag = node.tag as Node;
	if (tag.type !== "Identifier" || tag.name !== "sql") return;
	const quasi = node.quasi as Node;
	const typed = node.typeArguments as Node | null;
	const isBoolean = typed !== null && /^<\s*(boolean|SqlBool)\s*>$/.test(source.slice(typed.start, typed.end));
	const text = blankedTemplate(source, quasi);
	const ranges = clauses(text);
	if (isBoolean && !/^\s*\(?\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b/i.test(text))
		ranges.push({ start: 0, end: text.length });
	const offset = quasi.start + 1;
	for (const range of ranges) {
		for (const part of boolParts(text, range)) {
			const [start, end] = [offset + part.start, offset + part.end];
			const written = source.slice(start, end);
			// The condition of EXISTS is taken apart itself.
			if (/^EXISTS\b/i.test(written) || !ABOUT_SCOPE.test(written)) continue;
			const before = "${__mutation.condition(*, sql`";
			add({ start, end }, "sql", part.becomes, [
				...around(
					start,
					end,
					part.becomes === "true" ? before : before.replace("condition", "alternative"),
					"`)}",
					depth + 1 + part.depth,
				),
			]);
		}
	}
}

/**
 * The text of a template with its expressions blanked out, so that offsets stay and no keyword of
 * theirs is taken for SQL.
 */
function blankedTemplate(source: string, quasi: Node): string {
	let text = source.slice(quasi.start + 1, quasi.end - 1);
	for (const [index, expression] of (quasi.expressions as readonly Node[]).entries()) {
		const [before, after] = [index, index + 1].map((at) => (quasi.quasis as readonly Node[])[at] as Node);
		if (before === undefined || after === undefined) throw new Error("a template without quasis");
		const start = source.lastIndexOf("${", expression.start) - quasi.start - 1;
		const end = source.indexOf("}", expression.end) + 1 - quasi.start - 1;
		text = text.slice(0, start) + "?".repeat(end - start) + text.slice(end);
	}
	return text;
}

/** Whether the conditions at this node are of the code that decides. */
function decides(file: string, node: Node, ancestors: readonly Node[], source: string): boolean {
	const isCondition = ["IfStatement", "ConditionalExpression", "LogicalExpression"].includes(node.type);
	if (!isCondition && node.type !== "ReturnStatement" && node.type !== "ArrowFunctionExpression") return false;
	// It is decided already; what is left is what to say.
	if (ancestors.some(({ type }) => type === "ThrowStatement")) return false;
	if (DECIDING_FILES.some((pattern) => pattern.test(file))) return true;
	const names = ancestors
		.filter(({ type }) => type === "FunctionDeclaration")
		.map((each) => String((each.id as Node).name));
	if (names.some((name) => DECIDING_NAMES.test(name) || DECIDING_FUNCTIONS[file]?.includes(name))) return true;
	if (names.some((name) => REFUSING_FUNCTIONS[file]?.includes(name))) {
		return (
			directionOf(node, ancestors) === "refuse" || (node.type === "IfStatement" && isRefusal(node.consequent as Node))
		);
	}
	const test = node.type === "LogicalExpression" ? node : (node.test as Node | undefined);
	return test !== undefined && isCondition && DECIDING_TEXT.test(source.slice(test.start, test.end));
}

/** Whether it lets somebody in or keeps somebody out that an expression is true. */
function directionOf(node: Node, ancestors: readonly Node[]): "allow" | "refuse" {
	let refuses = false;
	let inner = node;
	for (const outer of ancestors.toReversed()) {
		if (outer.type === "UnaryExpression" && outer.operator === "!") refuses = !refuses;
		else if (outer.type === "IfStatement" && outer.test === inner && isRefusal(outer.consequent as Node))
			refuses = !refuses;
		else if (outer.type !== "LogicalExpression" && outer.type !== "ParenthesizedExpression") break;
		inner = outer;
	}
	return refuses ? "refuse" : "allow";
}

function visitCode(node: Node, ancestors: readonly Node[], add: Add): void {
	const depth = ancestors.length;
	const replace = (target: Node, by: "true" | "false") =>
		add(
			target,
			"code",
			by,
			around(target.start, target.end, `(__mutation.isOn(*) ? ${by} : __mutation.code(*, ${by}, `, "))", depth + 1),
		);
	switch (node.type) {
		case "IfStatement":
			// The condition of a refusal becomes false; every other condition becomes true.
			replace(node.test as Node, isRefusal(node.consequent as Node) ? "false" : "true");
			return;
		case "ConditionalExpression":
			replace(node.test as Node, "true");
			replace(node.test as Node, "false");
			return;
		case "LogicalExpression": {
			// Taking an operand away lets more in when it is one of several demands, or of several reasons
			// to refuse.
			const letsMoreIn = directionOf(node, ancestors) === "allow" ? "&&" : "||";
			if (node.operator !== letsMoreIn || !isTested(node)) return;
			for (const operand of [node.left, node.right] as Node[]) {
				if (operand.type === "LogicalExpression" && operand.operator === node.operator) continue;
				replace(operand, node.operator === "&&" ? "true" : "false");
			}
			return;
		}
		case "ReturnStatement":
		case "ArrowFunctionExpression": {
			const answer = (node.type === "ReturnStatement" ? node.argument : node.body) as Node | null;
			if (answer === null || !isPredicate(answer)) return;
			replace(answer, "true");
			// A search predicate may find the reason to refuse.
			if (isLookedFor(node, ancestors)) replace(answer, "false");
		}
	}
}

function isLookedFor(node: Node, ancestors: readonly Node[]): boolean {
	const call = ancestors.at(-1);
	const callee = call?.type === "CallExpression" ? (call.callee as Node) : undefined;
	return node.type === "ArrowFunctionExpression" && (callee?.property as Node | undefined)?.name === "find";
}

/** Whether a logical expression is a condition, not the choice of a value. */
function isTested(node: Node): boolean {
	const operands = [node.left, node.right] as Node[];
	return operands.every((operand) => !["ObjectExpression", "ArrayExpression", "Literal"].includes(operand.type));
}

const COMPARISONS = new Set(["===", "!==", "<", "<=", ">", ">=", "in"]);
const ASKING_METHODS = new Set(["includes", "has", "some", "every", "test", "startsWith"]);

function isPredicate(node: Node): boolean {
	if (node.type === "BinaryExpression") return COMPARISONS.has(String(node.operator));
	if (node.type === "UnaryExpression") return node.operator === "!";
	if (node.type !== "CallExpression") return false;
	const callee = node.callee as Node;
	return callee.type === "MemberExpression" && ASKING_METHODS.has(String((callee.property as Node).name));
}

/** Whether a branch says no: it throws, or answers false, nothing, null or a hidden target. */
function isRefusal(branch: Node): boolean {
	let refuses = false;
	walk(branch, [], (node) => {
		if (node.type === "ThrowStatement") refuses = true;
		if (node.type === "CallExpression" && (node.callee as Node).type === "MemberExpression") {
			const { object, property } = node.callee as { object?: Node; property?: Node };
			if (object?.name === "issues" && property?.name === "push") refuses = true;
		}
		if (node.type !== "ReturnStatement") return;
		const answer = node.argument as Node | null;
		const isEmpty =
			answer === null ||
			(answer.type === "Literal" && (answer.value === false || answer.value === null)) ||
			(answer.type === "Identifier" && answer.name === "undefined") ||
			(answer.type === "ArrayExpression" && (answer.elements as unknown[]).length === 0);
		const isHidden =
			answer?.type === "ObjectExpression" &&
			(answer.properties as Node[]).some(({ value }) =>
				["hidden", "suspended"].includes(String((value as Node | undefined)?.value)),
			);
		if (isEmpty || isHidden) refuses = true;
	});
	return refuses;
}

function walk(node: Node, ancestors: readonly Node[], visit: (node: Node, ancestors: readonly Node[]) => void): void {
	visit(node, ancestors);
	const inside = [...ancestors, node];
	for (const [name, value] of Object.entries(node)) {
		if (name === "typeAnnotation" || name === "typeArguments" || name === "returnType") continue;
		for (const child of Array.isArray(value) ? value : [value]) {
			if (typeof child === "object" && child !== null && typeof (child as Node).type === "string") {
				walk(child as Node, inside, visit);
			}
		}
	}
}

/**
 * The source with all of its mutants behind switches; the first has the number `firstId`. Lines
 * stay where they are.
 */
export function withSwitches(
	source: string,
	conditions: readonly Condition[],
	firstId: number,
	switchModule: string,
): string {
	const edits = conditions
		.flatMap((condition, index) =>
			condition.edits.map((edit) => ({
				...edit,
				insert: edit.insert.replaceAll("*", String(firstId + index)),
				order: index,
			})),
		)
		// At one place: what closes comes first, the innermost of it before the others; what opens comes
		// outermost first.
		.sort(
			(left, right) =>
				left.at - right.at ||
				Number(right.closes) - Number(left.closes) ||
				(left.closes ? right.depth - left.depth : left.depth - right.depth) ||
				(left.closes ? right.order - left.order : left.order - right.order),
		);
	let text = "";
	let position = 0;
	for (const { at, remove, insert } of edits) {
		text += source.slice(position, at) + insert;
		position = at + remove;
	}
	return `import * as __mutation from ${JSON.stringify(switchModule)}; ${text}${source.slice(position)}`;
}
