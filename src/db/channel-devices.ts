/**
 * The devices of channels, by the channel that served the last check of each. The statement reads
 * an index alone, and a bounded number of its entries for each channel.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { reportQuery } from "./client";
import { MOST_COUNTED } from "./device-list";

interface ChannelDevices {
	readonly channel_id: number;
	/** At most one more than `MOST_COUNTED`. */
	readonly devices: number;
}

/** In the telemetry database, in the order of the ids. */
export function devicesByChannel(appId: AppId, channelIds: readonly number[]): CompiledQuery<ChannelDevices> {
	const asked = sql<{ readonly value: number }>`json_each(${JSON.stringify(channelIds)})`.as("asked");
	return reportQuery
		.selectFrom(asked)
		.select((eb) => [
			eb.ref("asked.value").as("channel_id"),
			eb
				.selectFrom((inner) =>
					inner
						.selectFrom("devices")
						.select("devices.app_id")
						.where("devices.app_id", "=", appId)
						.whereRef("devices.channel_id", "=", "asked.value")
						.limit(sql.lit(MOST_COUNTED + 1))
						.as("counted"),
				)
				.select((inner) => inner.fn.countAll<number>().as("devices"))
				.$asScalar()
				.$notNull()
				.as("devices"),
		])
		.compile();
}
