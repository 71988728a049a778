/**
 * The form of test/isolation-matrix.txt: one row for each endpoint, one column for each role, and
 * in each cell one digit for each situation. A person reviews the file, so its legend stands at its
 * top.
 */

/** In the order of the digits; a slash stands between the groups. */
export const SITUATION_GROUPS = [
	["own work", "another's work"],
	["sibling app"],
	["other organization"],
	["deleted thing", "deleted app", "deleted organization", "deleted key"],
	["expired key", "expired binding"],
] as const;
export type Situation = (typeof SITUATION_GROUPS)[number][number];

const LEGEND = `The answer of each endpoint to a key, by its role and by the target of the request. The digits of a cell, as in "22/4/4/4441/14":

  own/     in the scope of the role: something that the key made itself, then something that another key made
  sibling/ the role is held on another app of the same organization
  other/   the role is held in another organization
  deleted/ the bundle, channel, key or member that the request is about; the whole app; the whole organization; the calling key
  expired  the calling key; its binding

  2 success   1 not authenticated (401)   3 permission denied (403)   4 not found (404)
  - no such case: the request is about nothing that the key could have made, a role of the whole organization has no sibling app,
    nothing smaller than the app or the organization can be deleted, or the request is about no app

"control" is the answer to the very same requests by a key with every right. Change this file only with -u, after reading the difference:
  npx vitest run -c test/vitest.config.ts --project worker test/worker/tenancy/isolation-matrix.test.ts -u`;

const DIGITS: Readonly<Record<number, string>> = { 401: "1", 403: "3", 404: "4" };

/** The digit for a status. */
export function digitOf(status: number): string {
	const digit = status >= 200 && status < 300 ? "2" : DIGITS[status];
	if (digit === undefined) throw new Error(`an answer with ${status} has no place in the matrix`);
	return digit;
}

export class IsolationTable {
	readonly #rows = new Map<string, { control: string; whole: boolean; cells: Map<string, string> }>();

	constructor(
		endpoints: readonly string[],
		readonly roles: readonly string[],
	) {
		// Rows stand in the order of the list, whatever is tested first.
		for (const endpoint of endpoints) this.#row(endpoint);
	}

	/** Endpoints whose rows are whole. */
	get whole(): string[] {
		return [...this.#rows].filter(([, row]) => row.whole).map(([endpoint]) => endpoint);
	}

	/** To be said when everything that must hold for the endpoint was seen to hold. */
	noteWhole(endpoint: string): void {
		this.#row(endpoint).whole = true;
	}

	note(endpoint: string, situation: Situation, role: string, status: number): void {
		this.#row(endpoint).cells.set(`${situation} ${role}`, digitOf(status));
	}

	noteControl(endpoint: string, status: number): void {
		this.#row(endpoint).control = String(status);
	}

	text(): string {
		const rows = [["", "control", ...this.roles]];
		for (const [endpoint, { control, cells }] of this.#rows) {
			const cellOf = (role: string) =>
				SITUATION_GROUPS.map((group) =>
					group.map((situation) => cells.get(`${situation} ${role}`) ?? "-").join(""),
				).join("/");
			rows.push([endpoint, control, ...this.roles.map(cellOf)]);
		}
		const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
		const lines = rows.map((row) =>
			row
				.map((cell, column) => cell.padEnd(widths[column] ?? 0))
				.join("  ")
				.trimEnd(),
		);
		return `${LEGEND}\n\n${lines.join("\n")}\n`;
	}

	#row(endpoint: string) {
		const row = this.#rows.get(endpoint) ?? { control: "", whole: false, cells: new Map<string, string>() };
		this.#rows.set(endpoint, row);
		return row;
	}
}
