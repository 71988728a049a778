/**
 * The devices of each channel, by the channel that served their last check. One statement of an
 * index alone, bounded for each channel and in the number of channels.
 */
import { type CompiledQuery, sql } from "kysely";
import type { AppId } from "../authz/decide";
import { reportQuery } from "./client";

export const MOST_COUNTED_CHANNELS = 1_000;
/** Devices of one channel that are counted. */
export const MOST_COUNTED_DEVICES = 5_000;

interface ChannelDevices {
	readonly channel_id: number;
	/** At most `MOST_COUNTED_DEVICES`. */
	readonly devices: number;
}

/** In the telemetry database. Each channel is found from the one before. */
export function devicesByChannel(appId: AppId): CompiledQuery<ChannelDevices> {
	const next = () =>
		reportQuery
			.selectFrom("devices")
			.select((eb) => eb.fn.min("devices.channel_id").as("channel_id"))
			.where("devices.app_id", "=", appId);
	return reportQuery
		.withRecursive("served(channel_id)", (db) =>
			db.selectNoFrom(next().where("devices.channel_id", ">", 0).as("channel_id")).unionAll(
				db
					.selectFrom("served")
					.select(
						next()
							.whereRef("devices.channel_id", ">", "served.channel_id" as never)
							.as("channel_id"),
					)
					.where("served.channel_id", "is not", null)
					.limit(sql.lit(MOST_COUNTED_CHANNELS)),
			),
		)
		.selectFrom("served")
		.select((eb) => [
			eb.ref("served.channel_id").$notNull().as("channel_id"),
			eb
				.selectFrom((inner) =>
					inner
						.selectFrom("devices")
						.select("devices.app_id")
						.where("devices.app_id", "=", appId)
						.whereRef("devices.channel_id", "=", "served.channel_id")
						.limit(sql.lit(MOST_COUNTED_DEVICES))
						.as("counted"),
				)
				.select((inner) => inner.fn.countAll<number>().as("devices"))
				.$asScalar()
				.$notNull()
				.as("devices"),
		])
		.where("served.channel_id", "is not", null)
		.compile();
}
