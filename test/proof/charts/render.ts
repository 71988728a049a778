/**
 * `npm run docs:charts`: draws every case into dist/charts, with a page that shows them all, in
 * light and dark, wide and as on a telephone.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { CHART_CASES } from "./cases";

const directory = fileURLToPath(new URL("../../../dist/charts/", import.meta.url));
await mkdir(directory, { recursive: true });

const figures: string[] = [];
for (const [name, draw] of Object.entries(CHART_CASES)) {
	const svg = draw();
	await writeFile(`${directory}${name}.svg`, svg);
	console.log(`${name}: ${svg.length} characters, ${gzipSync(svg).length} bytes gzip`);
	const images = ["light", "dark"].flatMap((scheme) =>
		["wide", "phone"].map((size) => `<img class="${scheme} ${size}" src="${name}.svg" alt="">`),
	);
	figures.push(`<figure><figcaption>${name}</figcaption>${images.join("")}</figure>`);
}
await writeFile(
	`${directory}index.html`,
	`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Charts</title>
<style>
body { font-family: system-ui, sans-serif; margin: 1rem; background: #888; }
figure { display: flex; flex-wrap: wrap; gap: 1rem; margin: 0 0 2rem; align-items: start; }
figcaption { flex-basis: 100%; }
.wide { width: 700px; }
.phone { width: 360px; }
.light { color-scheme: light; }
.dark { color-scheme: dark; }
</style>
${figures.join("\n")}
</html>
`,
);
console.log(`\n${directory}index.html`);
