/**
 * `npm run openapi`: writes src/docs/openapi.json from the endpoint list. A test fails when the file is not current.
 */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openApiDocument } from "../api/openapi";
import { allEndpoints } from "../app";
import { PROJECT_DIRECTORY } from "./build";

const path = join(PROJECT_DIRECTORY, "src/docs/openapi.json");
await writeFile(path, `${JSON.stringify(openApiDocument(allEndpoints), null, "\t")}\n`);
console.log(`${allEndpoints.length} operations written to src/docs/openapi.json`);
