/**
 * Which calls of a long list fail in `npm test`: every tenth one, from a place that the name
 * decides, so that every position of a list is met by some name. `npm run test:proof` lets each
 * call fail.
 */
export const IS_PROOF = (import.meta as unknown as { env: Record<string, string> }).env.VITE_PROOF !== undefined;
const EVERY = IS_PROOF ? 1 : 10;

export function sampleOf<Item>(name: string, items: readonly Item[]): readonly Item[] {
	const start = [...name].reduce((sum, character) => sum + character.charCodeAt(0), 0) % Math.min(EVERY, items.length);
	return items.filter((_, index) => index % EVERY === start);
}
