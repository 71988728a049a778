/**
 * The closed list of requests that the stock CLI sends beside the public API.
 */
export const compatEndpoints = [] as const;
