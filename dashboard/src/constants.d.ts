/** What the build fills in; see vite.config.ts. */
declare const __CLI_VERSION__: string;
