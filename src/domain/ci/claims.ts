/**
 * Compares the claims of a CI job's identity token with the claims that a publisher wants: exact
 * text, or a prefix with a trailing `*`. Pure. The claim `sub` is never compared, because its form
 * differs by provider, event and setting.
 */

export type Claims = Readonly<Record<string, unknown>>;
/** Claim names and the wanted texts. */
export type WantedClaims = Readonly<Record<string, string>>;

export interface Mismatch {
	readonly claim: string;
	/** Null: the server does not say. */
	readonly expected: string | null;
	/** Null: the token has no such claim. */
	readonly received: string | null;
}

/** How the claims of a provider are compared. */
export interface ClaimRules {
	/** Names that the provider compares without case. */
	readonly withoutCase: readonly string[];
	/** Claims of the form `<file>@<ref>`, which name the file of a workflow. */
	readonly files: readonly string[];
	/** The claim with the name of the repository, with which paths of workflow files begin. */
	readonly repository?: string;
	/** The folder of workflow files, for wanted files that are named without a path. */
	readonly folder?: string;
}

/** The texts of a claim; a list has several. Objects have none. */
export function textsOf(value: unknown): string[] {
	if (typeof value === "string") return [value];
	if (typeof value === "number" || typeof value === "boolean") return [String(value)];
	return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

const singleText = (value: unknown): string[] => (Array.isArray(value) ? [] : textsOf(value));

export const textOf = (claims: Claims, name: string): string | null => textsOf(claims[name])[0] ?? null;

/** The first wanted claim that the token lacks; ids first. */
export function mismatchOf(
	claims: Claims,
	wanted: WantedClaims,
	ids: readonly string[],
	rules: ClaimRules,
): Mismatch | undefined {
	const names = Object.keys(wanted).sort((one, other) => Number(ids.includes(other)) - Number(ids.includes(one)));
	for (const claim of names) {
		const expected = wanted[claim] ?? "";
		// An id is one text: a token with several would match any of them.
		const received = ids.includes(claim) ? singleText(claims[claim]) : textsOf(claims[claim]);
		if (!received.some((text) => matches(claims, claim, expected, text, rules))) {
			return { claim, expected, received: received[0] ?? null };
		}
	}
	return undefined;
}

function matches(claims: Claims, claim: string, wanted: string, received: string, rules: ClaimRules): boolean {
	if (rules.files.includes(claim)) return matchesFile(claims, wanted, received, rules);
	return rules.withoutCase.includes(claim)
		? matchesText(lowered(wanted), lowered(received))
		: matchesText(wanted, received);
}

/**
 * Of ASCII letters only: other letters have lower-case forms that are ASCII, such as the Kelvin
 * sign.
 */
const lowered = (text: string): string => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());

/** An empty claim matches nothing, not even `*`. */
function matchesText(wanted: string, received: string): boolean {
	if (!wanted.endsWith("*")) return wanted === received;
	return received !== "" && received.startsWith(wanted.slice(0, -1));
}

/**
 * `<file>@<ref>`. The file is compared as a whole even where the wanted ref is a prefix, because a
 * file may be named `release.yml@evil.yml`. A wanted file without a path is in the folder of
 * workflow files of the token's own repository.
 */
function matchesFile(claims: Claims, wanted: string, received: string, rules: ClaimRules): boolean {
	const want = splitFile(wanted);
	const got = splitFile(received);
	if (want.ref === undefined && want.file.endsWith("*")) return matchesText(want.file, got.file);
	const repository = rules.repository === undefined ? "" : (textOf(claims, rules.repository) ?? "");
	const isBare = rules.folder !== undefined && !want.file.includes("/");
	const file = isBare ? `${repository}/${rules.folder}/${want.file}` : want.file;
	if (caseless(file, rules) !== caseless(got.file, rules)) return false;
	return want.ref === undefined || matchesText(want.ref, got.ref ?? "");
}

/** The path of a file, whose first two parts are a repository's name without case. */
function caseless(file: string, { folder }: ClaimRules): string {
	return folder === undefined ? file : file.replace(/^[^/]+\/[^/]+\//, lowered);
}

/**
 * A workflow file has no folder below its own, so the first `@refs/` ends the file. `@*` wants any
 * ref, and a job of a bare commit has its hash after the last `@`.
 */
function splitFile(text: string): { readonly file: string; readonly ref: string | undefined } {
	const named = text.indexOf("@refs/");
	const at = named >= 0 ? named : /@(\*|r\*|re\*|ref\*|refs\*|[0-9a-f]{40,64})$/.exec(text)?.index;
	return at === undefined ? { file: text, ref: undefined } : { file: text.slice(0, at), ref: text.slice(at + 1) };
}

/**
 * Claims that say of a job that few people can start it: its branch or tag, its environment, or
 * that its ref is protected.
 */
export interface RefClaims {
	/** Branches, tags and environments. */
	readonly names: readonly string[];
	/** `true`: the ref or the environment is protected. */
	readonly protection: readonly string[];
}

/**
 * Whether the wanted claims name a branch, a tag, an environment or a protected ref. A prefix that
 * every ref has names none.
 */
export function namesRef(wanted: WantedClaims, { names, protection }: RefClaims, rules: ClaimRules): boolean {
	if (protection.some((claim) => wanted[claim] === "true")) return true;
	return names.some((claim) => {
		const text = wanted[claim];
		const ref = text !== undefined && rules.files.includes(claim) ? splitFile(text).ref : text;
		if (ref === undefined) return false;
		if (!ref.endsWith("*")) return ref !== "";
		return !["refs/heads/", "refs/tags/"].some((every) => every.startsWith(ref.slice(0, -1)));
	});
}

/** Narrower publishers are larger: more claims, and then more exact ones. */
export function narrowness(wanted: WantedClaims): number {
	const texts = Object.values(wanted);
	return texts.length * 1_000 + texts.filter((text) => !text.endsWith("*")).length;
}
