/** Where the project lies, for programs that run from any directory. */
import { fileURLToPath } from "node:url";

export const PROJECT_DIRECTORY = fileURLToPath(new URL("../..", import.meta.url));
