/**
 * The `react` of the dashboard's build: Preact, whose script is 57 kB smaller (gzip). Source files
 * and the component library import `react`, with React's types; vite.config.ts resolves that name
 * here. All that they import must exist.
 */

export * from "preact/compat";
export { default } from "preact/compat";

/** Missing from Preact. Hidden children are removed, and lose their state: no screen hides any. */
export function Activity({ mode, children }) {
	return mode === "hidden" ? null : children;
}
