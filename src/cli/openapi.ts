/**
 * `npm run openapi`: writes src/docs/openapi.json from the endpoint list, and the table of roles into src/docs/access.md. A test fails
 * when a file is not current.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openApiDocument } from "../api/openapi";
import { allEndpoints } from "../app";
import { PROJECT_DIRECTORY } from "./build";
import { withRoleTable } from "./guide";

const path = join(PROJECT_DIRECTORY, "src/docs/openapi.json");
await writeFile(path, `${JSON.stringify(openApiDocument(allEndpoints), null, "\t")}\n`);
console.log(`${allEndpoints.length} operations written to src/docs/openapi.json`);

const guidePath = join(PROJECT_DIRECTORY, "src/docs/access.md");
await writeFile(guidePath, withRoleTable(await readFile(guidePath, "utf8")));
