/** Events of devices as the Worker sends them to its Queue, for tests of the consumer and the buffer. */
import type { CountedEvent, DeviceSeen } from "../../../src/messages";

type Place = "appId" | "deviceId" | "atMs" | "versionName";

/** A check of a device; `fields` names at least the app, the device, the time and its version. */
export const seenEvent = (fields: Pick<DeviceSeen, Place> & Partial<DeviceSeen>): DeviceSeen => ({
	type: "seen",
	platform: "ios",
	versionBuild: "1",
	osVersion: "18",
	pluginVersion: "8.0.0",
	isProd: true,
	isEmulator: false,
	customId: "",
	installSource: "",
	keyId: "",
	defaultChannel: "",
	channelId: null,
	...fields,
});

/** A counted report, an installation unless `fields` says otherwise. */
export const countedEvent = (fields: Pick<CountedEvent, Place | "id"> & Partial<CountedEvent>): CountedEvent => ({
	type: "count",
	channelName: "production",
	metric: "install",
	deviceAtMs: null,
	timed: false,
	...fields,
});
