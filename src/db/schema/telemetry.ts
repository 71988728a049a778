/**
 * Reports of devices, and the statistics about them. `schema.sql` explains the columns.
 */
import type { Generated } from "kysely";
import type { Flag } from "../../authz/principal";

export interface DevicesTable {
	app_id: string;
	device_id: string;
	platform: string | null;
	version_name: string | null;
	version_build: string | null;
	os_version: string | null;
	plugin_version: string | null;
	is_prod: Flag | null;
	is_emulator: Flag | null;
	custom_id: string | null;
	install_source: string | null;
	key_id: string | null;
	default_channel: string | null;
	channel_id: number | null;
	last_seen_at_ms: number | null;
	created_at_ms: number;
	updated_at_ms: number;
	reported_at: string | null;
	counted_days: string | null;
	revision: Generated<number>;
	custom_id_first_at_ms: number | null;
	custom_id_changed_at_ms: number | null;
	recent_reports: string | null;
}

export interface CountedIdsTable {
	period: number;
	ids: string;
}

export interface DailyCountsTable {
	app_id: string;
	day: number;
	version_name: string;
	channel_name: string;
	metric: string;
	amount: number;
}

export interface DailyTotalsTable {
	app_id: string;
	day: number;
	get_count: Generated<number>;
	install_count: Generated<number>;
	fail_count: Generated<number>;
	bandwidth_bytes: Generated<number>;
	device_count: Generated<number>;
	new_device_count: Generated<number>;
	refused_device_count: Generated<number>;
	lost_event_count: Generated<number>;
}

export interface DailyInstallTimesTable {
	app_id: string;
	day: number;
	version_name: string;
	bucket: number;
	amount: number;
}

export interface DailyHealthTable {
	app_id: string;
	day: number;
	version_name: string;
	signal: string;
	bucket: number;
	amount: number;
}

export interface DeviceEventsTable {
	app_id: string;
	at_ms: number;
	id: string;
	events: string;
}

export interface DeadMessagesTable {
	id: string;
	kind: string;
	body: string;
	sent_at_ms: number;
	died_at_ms: number;
	resend: Generated<Flag>;
}

export interface ReportRemovalsTable {
	app_id: string;
	telemetry_binding: string;
	due_at_ms: number;
}

/** A telemetry database's own row of an app. */
export interface ReportedAppsTable {
	id: string;
}

/** A telemetry database's own row of a version. */
export interface ReportedBundlesTable {
	app_id: string;
	name: string;
	object_key: string | null;
}

export interface JobPositionsTable {
	step: string;
	position: string;
}

export interface DeviceSketchesTable {
	app_id: string;
	day: number;
	kind: "all" | "version" | "moved";
	version_name: string;
	slot: number;
	sketch: string;
	devices: number | null;
	revision: number;
}

export interface DailyStorageTable {
	app_id: string;
	day: number;
	size_bytes: number;
}

export interface RolloutDevicesTable {
	rollout_id: string;
	device_id: string;
	network: string | null;
	reporting_network: string | null;
	from_version: string | null;
	first_served_at_ms: number | null;
	last_served_at_ms: number | null;
	installed_at_ms: number | null;
	failed_at_ms: number | null;
	not_counted: "newer" | "network" | null;
	device_created_at_ms: number | null;
	crashed_at_ms: number | null;
	errored_at_ms: number | null;
	set_at_device_ms: number | null;
	exit_at_device_ms: number | null;
}
