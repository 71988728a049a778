/**
 * `npm run openapi`: writes src/docs/openapi.json from the endpoint list, the table of roles in src/docs/access.md, and the definitions of
 * figures in src/docs/statistics.md. A test fails if one of them is out of date.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { allEndpoints } from "../endpoints";
import { DEFINITIONS } from "../features/statistics/definitions";
import { openApiDocument } from "../http/openapi";
import { withFigures, withRoleTable } from "./guide";
import { PROJECT_DIRECTORY } from "./project";

const path = join(PROJECT_DIRECTORY, "src/docs/openapi.json");
await writeFile(path, `${JSON.stringify(openApiDocument(allEndpoints), null, "\t")}\n`);
console.log(`${allEndpoints.length} operations written to src/docs/openapi.json`);

const guidePath = join(PROJECT_DIRECTORY, "src/docs/access.md");
await writeFile(guidePath, withRoleTable(await readFile(guidePath, "utf8")));

const statisticsPath = join(PROJECT_DIRECTORY, "src/docs/statistics.md");
await writeFile(statisticsPath, withFigures(await readFile(statisticsPath, "utf8"), DEFINITIONS));
