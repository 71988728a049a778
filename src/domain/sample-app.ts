/**
 * The sample app of an organization: an app with made-up history, which its public id marks
 * everywhere. The id contains a part of the app's UUID, so no real device asks for it, and POST
 * /app gives such an id to no other app.
 */
const PREFIX = "sample.capstan.";
const ID_LENGTH = 12;

export const sampleAppId = (appUuid: string): string => `${PREFIX}${appUuid.replaceAll("-", "").slice(0, ID_LENGTH)}`;

/** Ids of apps are compared without case. */
export const isSampleAppId = (publicAppId: string): boolean => publicAppId.toLowerCase().startsWith(PREFIX);

/** Ids of sample apps lie between these two, for SQL. */
export const SAMPLE_IDS = { from: PREFIX, before: `${PREFIX.slice(0, -1)}/` } as const;
