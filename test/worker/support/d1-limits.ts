/**
 * A database that refuses what the documentation of D1 excludes although the local engine takes it:
 * functions with more than 32 arguments (https://developers.cloudflare.com/d1/platform/limits/).
 * Otherwise a deployment could be the first to notice.
 */

const MOST_ARGUMENTS = 32;
/** Functions of SQLite with any number of arguments. */
const VARIADIC =
	/(?:json_(?:object|array|insert|replace|set|remove|extract)|coalesce|max|min|format|printf|concat|concat_ws|char)$/i;

const accepted = new Set<string>();

export function withinLimits(d1: D1Database): D1Database {
	const checked = <Value extends D1Database | D1DatabaseSession>(value: Value): Value =>
		new Proxy(value, {
			// The binding is shared by every file of the run: a method replaced here would stay replaced.
			set: () => false,
			get(target, name) {
				const member: unknown = Reflect.get(target, name);
				if (typeof member !== "function") return member;
				if (name === "withSession") return (constraint: D1SessionConstraint) => checked(d1.withSession(constraint));
				if (name !== "prepare") return member.bind(target);
				return (text: string) => {
					if (!accepted.has(text)) refuseLongCalls(text);
					accepted.add(text);
					return target.prepare(text);
				};
			},
		});
	return checked(d1);
}

function refuseLongCalls(text: string): void {
	const code = text.replaceAll(/'[^']*'|"[^"]*"/g, "x");
	const open: { readonly isCall: boolean; commas: number }[] = [];
	for (const { 0: character, index } of code.matchAll(/[(),]/g)) {
		if (character === "(") {
			open.push({ isCall: VARIADIC.test(code.slice(0, index)), commas: 0 });
			continue;
		}
		const innermost = character === "," ? open.at(-1) : open.pop();
		if (innermost === undefined) continue;
		if (character === ",") innermost.commas += 1;
		else if (innermost.isCall && innermost.commas >= MOST_ARGUMENTS) {
			throw new Error(`a function has ${innermost.commas + 1} arguments, D1 allows ${MOST_ARGUMENTS}: ${text}`);
		}
	}
}
