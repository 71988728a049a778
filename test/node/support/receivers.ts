/**
 * Devices with different store builds that receive uploaded bundles: the published Electron
 * updater, and the published Android client if a JDK is installed. A device that gets a bundle
 * downloads it, compares its checksum and installs it.
 */
import { randomUUID } from "node:crypto";
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { checkOnItsOwn as androidChecks, findJdk, startAndroidApp } from "../../proof/clients/android-client";
import { startElectronApp } from "../../proof/clients/electron-app";
import type { Product } from "./product";

/** Store builds below 1.0.0, of several major versions, and with two digits. */
export const STORE_BUILDS = ["0.9.0", "1.0.0", "1.4.2", "2.3.0", "10.0.1"] as const;

export interface Receiver {
	readonly appId: string;
	/** Version of the store build. */
	readonly build: string;
	/** The channel that the app was built for. */
	readonly defaultChannel?: string;
	/** The channel that its user chooses, through `/channel_self`. */
	readonly chosenChannel?: string;
}

/** The version that the device runs after one check; "builtin" if it got no bundle. */
type Receive = (product: Product, receiver: Receiver) => Promise<string>;

export const receiveOnElectron: Receive = async (product, { appId, build, defaultChannel, chosenChannel }) => {
	const { updater } = await startElectronApp({
		url: product.url,
		appId,
		version: build,
		userDirectory: await mkdtemp(join(product.directory, "user-")),
		...(defaultChannel === undefined ? {} : { defaultChannel }),
	});
	if (chosenChannel !== undefined) {
		const { error } = await updater.setChannel({ channel: chosenChannel });
		if (error !== undefined) throw new Error(`channel ${chosenChannel} was refused: ${error}`);
	}
	const { url, version, checksum } = await updater.getLatest();
	if (url === undefined || url === "") return "builtin";
	const { id } = await updater.download({ url, version, checksum: checksum ?? "" });
	await updater.set({ id });
	return (await updater.current()).bundle.version;
};

export const receiveOnAndroid: Receive = async (product, { appId, build, defaultChannel, chosenChannel }) => {
	const app = await startAndroidApp({
		url: product.url,
		appId,
		version: build,
		deviceId: randomUUID(),
		directory: await mkdtemp(join(product.directory, "phone-")),
		...(defaultChannel === undefined ? {} : { defaultChannel }),
	});
	try {
		if (chosenChannel !== undefined) {
			const { error } = await app.ask("setChannel", { channel: chosenChannel });
			if (error !== undefined) throw new Error(`channel ${chosenChannel} was refused: ${error}`);
		}
		await androidChecks(app);
		await app.ask("moveToBackground");
		const { id, version } = await app.ask("current");
		return id === "builtin" ? id : version;
	} finally {
		await app.stop();
	}
};

export const RECEIVERS: readonly (readonly [name: string, receive: Receive])[] = [
	["Electron", receiveOnElectron],
	...(findJdk() === undefined ? [] : [["Android", receiveOnAndroid] as const]),
];
