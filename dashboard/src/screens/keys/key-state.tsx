/**
 * States of API keys that somebody should know: an expiry that is near or over, and an old secret
 * that is still valid.
 */
import { UNUSED_DAYS } from "../../../../src/domain/defaults";
import { DAY_MS } from "../../../../src/domain/time";
import { Badge } from "../../components/badge";
import { Day } from "../../components/time";
import type { KeyRecord } from "./key-form";

/** A key that expires this soon has a badge. */
const EXPIRES_SOON_DAYS = 14;

const daysUntil = (at: string) => (Date.parse(at) - Date.now()) / DAY_MS;

export const hasExpired = ({ expires_at }: KeyRecord) => expires_at !== null && daysUntil(expires_at) <= 0;

export const expiresSoon = (record: KeyRecord) =>
	record.expires_at !== null && !hasExpired(record) && daysUntil(record.expires_at) <= EXPIRES_SOON_DAYS;

/** A new key has had no time to be used. */
export const isUnused = ({ created_at, last_used_at }: KeyRecord) =>
	daysUntil(last_used_at ?? created_at) <= -UNUSED_DAYS;

export function KeyState({ record }: { readonly record: KeyRecord }) {
	const { expires_at, previous_key_valid_until } = record;
	return (
		<>
			{hasExpired(record) ? <Badge tone="bad">Expired</Badge> : null}
			{expires_at !== null && expiresSoon(record) ? (
				<Badge tone="warn">Expires in {Math.ceil(daysUntil(expires_at))} d</Badge>
			) : null}
			{previous_key_valid_until !== null && daysUntil(previous_key_valid_until) > 0 ? (
				<Badge tone="info">
					Old secret until <Day value={previous_key_valid_until} />
				</Badge>
			) : null}
		</>
	);
}
