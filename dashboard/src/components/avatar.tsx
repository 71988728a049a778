/**
 * The actor of a change, as a small picture: initials for people, the mark for Capstan itself, an
 * icon for CI and API keys. Circles are for actors, squares (`AppTile`) for apps. The name stands
 * beside it as text.
 */
import { IconBrandGithub, IconBrandGitlab, type IconDrawing, IconKey, IconRefresh } from "../icons";
import { Icon } from "./icon";
import { Mark } from "./logo";

export type ActorKind = "person" | "capstan" | "ci" | "github" | "gitlab" | "key";

const BOTS: Readonly<Record<Exclude<ActorKind, "person" | "capstan">, IconDrawing>> = {
	ci: IconRefresh,
	github: IconBrandGithub,
	gitlab: IconBrandGitlab,
	key: IconKey,
};

/** The same number for the same text, so that a person and an app keep their colour. */
function bucketOf(text: string, buckets: number): number {
	let sum = 0;
	for (const letter of text) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 65_536;
	return sum % buckets;
}

/** `Ada Okafor` → `AO`, `ada@example.com` → `A`. */
function initialsOf(name: string): string {
	const words = name
		.replace(/@.*/, "")
		.split(/[\s._-]+/)
		.filter((word) => /\p{L}|\p{N}/u.test(word));
	const [first = "?", ...rest] = words;
	const last = rest.at(-1) ?? "";
	return ([...first].slice(0, 1).join("") + [...last].slice(0, 1).join("")).toUpperCase();
}

export function Avatar({ name, kind = "person" }: { readonly name: string; readonly kind?: ActorKind }) {
	if (kind === "capstan") {
		return (
			<span className="av sys" aria-hidden="true">
				<Mark />
			</span>
		);
	}
	if (kind !== "person") {
		return (
			<span className="av bot" aria-hidden="true">
				<Icon of={BOTS[kind]} />
			</span>
		);
	}
	return (
		<span className={`av ${["a", "b", "c"][bucketOf(name, 3)]}`} aria-hidden="true">
			{initialsOf(name)}
		</span>
	);
}

/** The picture of an app: its icon, or its initial on one of four grounds that its id chooses. */
export function AppTile({
	appId,
	name,
	icon,
	isLarge = false,
}: {
	readonly appId: string;
	readonly name: string;
	/** An image of this server; other addresses are refused by the page's policy. */
	readonly icon?: string | null | undefined;
	readonly isLarge?: boolean;
}) {
	return (
		<span className={`tile t${bucketOf(appId, 4) + 1}${isLarge ? " xl" : ""}`} aria-hidden="true">
			{icon?.startsWith("/") === true ? <img src={icon} alt="" /> : initialsOf(name).slice(0, 1)}
		</span>
	);
}
