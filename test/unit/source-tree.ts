/**
 * The source tree as the rules read it: imports by file, layer and feature, circles of imports, and
 * text without comments. Paths are below the root of their tree, and layers are its first folders.
 */
import { join } from "node:path";

export interface SourceFile {
	/** Below src, e.g. `features/apps/routes.ts`. */
	readonly path: string;
	readonly text: string;
}

const featureOf = (path: string) => /^features\/([^/]+)\//.exec(path)?.[1];

export const layerOf = (path: string) => path.split("/")[0]?.replace(/\.ts$/, "") ?? "";

interface Import {
	readonly target: string;
	readonly typeOnly: boolean;
}

/** `import … from`, `export … from`, `import "…"` and `import("…")`. */
export function importsOf(text: string): Import[] {
	const found = [...text.matchAll(/^(?:import|export) (type )?[^;]*?from "([^"]+)"/gms)].map(
		([, type, target = ""]) => ({ target, typeOnly: type !== undefined }),
	);
	for (const [, target = ""] of text.matchAll(/(?:^import |\bimport\(\s*)["'`]([^"'`]+)/gm)) {
		found.push({ target, typeOnly: false });
	}
	return found;
}

/** Imports of files of the source tree, by their layer. */
export function layersOf({ path, text }: SourceFile): { layer: string; typeOnly: boolean }[] {
	return importsOf(text)
		.filter(({ target }) => target.startsWith("."))
		.map(({ target, typeOnly }) => ({ layer: layerOf(join(path, "..", target)), typeOnly }));
}

/** Other features that a file imports, as pairs. */
export function pairsOf({ path, text }: SourceFile): string[] {
	const own = featureOf(path);
	if (own === undefined) return [];
	const others = importsOf(text).map(({ target }) => featureOf(join(path, "..", target)));
	return others.filter((other) => other !== undefined && other !== own).map((other) => `${own} -> ${other}`);
}

export const packageOf = (target: string) => /^(@[^/]+\/)?[^/]+/.exec(target)?.[0] ?? "";

/** Imported files of the same tree, without their endings. */
export function localImports(path: string, text: string): string[] {
	return importsOf(text)
		.filter(({ target }) => target.startsWith("."))
		.map(({ target }) => join(path, "..", target).replace(/\.tsx?$/, ""));
}

/**
 * The first circle that is found, its first file repeated at the end; empty where there is none.
 */
export function circleIn(graph: ReadonlyMap<string, readonly string[]>): string[] {
	const targets = new Map([...graph].map(([path, imports]) => [path.replace(/\.tsx?$/, ""), imports]));
	const done = new Set<string>();
	const walk = (path: string, trail: readonly string[]): string[] => {
		if (trail.includes(path)) return [...trail.slice(trail.indexOf(path)), path];
		if (done.has(path)) return [];
		for (const target of targets.get(path) ?? []) {
			const found = walk(target, [...trail, path]);
			if (found.length > 0) return found;
		}
		done.add(path);
		return [];
	};
	for (const path of targets.keys()) {
		const found = walk(path, []);
		if (found.length > 0) return found;
	}
	return [];
}

export function withoutComments(text: string): string {
	return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
}
