/**
 * Notice to operators that a database of this server fills up, from 70 % of its limit, with the
 * remedy.
 */

import { Alert, Text } from "@mantine/core";
import { FULL_DATABASE_REMEDY } from "../../../src/domain/defaults";
import { MINUTE_MS } from "../../../src/domain/time";
import { useAsk } from "../api";
import { shareText, sizeText } from "../components/size";

const FILLING = 0.7;
const NEARLY_FULL = 0.9;
/** No D1 database can be larger. */
const LARGEST_DATABASE_BYTES = 10_000_000_000;
const LOOK_EVERY_MS = 15 * MINUTE_MS;

export function OperatorNotice() {
	const isOperator = useAsk("GET /account", {}).data?.is_operator === true;
	const { data: status } = useAsk("GET /service/status", {}, { enabled: isOperator, everyMs: LOOK_EVERY_MS });
	if (status === undefined) return null;
	const limitBytes = Math.min(status.database.telemetry_max_bytes, LARGEST_DATABASE_BYTES);
	const largestBytes = Math.max(...[status.database, ...status.telemetry].map(({ size_bytes: bytes }) => bytes ?? 0));
	const share = largestBytes / limitBytes;
	if (share < FILLING) return null;
	const isNearlyFull = share >= NEARLY_FULL;
	return (
		<Alert
			mb="md"
			role="alert"
			color={isNearlyFull ? "red" : "orange"}
			title={isNearlyFull ? "The database is nearly full" : "The database fills up"}
		>
			<Text size="sm">
				{sizeText(largestBytes)} of {sizeText(limitBytes)} are used ({shareText(largestBytes, limitBytes)}).{" "}
				{FULL_DATABASE_REMEDY}
			</Text>
		</Alert>
	);
}
