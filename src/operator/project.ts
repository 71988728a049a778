/**
 * The directory of the project, for programs that run from any other. This file imports nothing of
 * ours, so that a start which only reads the directory loads no bundler.
 */
import { fileURLToPath } from "node:url";

export const PROJECT_DIRECTORY = fileURLToPath(new URL("../..", import.meta.url));
