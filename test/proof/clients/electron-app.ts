/**
 * An Electron app in plain Node: the published @capgo/electron-updater, unmodified, over the few
 * calls of `electron` that it makes. A restart is a new updater on the same user directory.
 */
import Module, { createRequire } from "node:module";
import { join } from "node:path";

type Updater = import("@capgo/electron-updater").ElectronUpdater;

export interface ElectronApp {
	readonly updater: Updater;
	/** Pages that the window loaded, in order. */
	readonly loaded: string[];
}

export interface ElectronAppOptions {
	readonly url: string;
	readonly appId: string;
	/** Version of the store build. */
	readonly version: string;
	readonly userDirectory: string;
	readonly defaultChannel?: string;
	/** Address for reports; without it, the app sends none. */
	readonly statsUrl?: string;
}

/** Runs the periodic check of the updater immediately; its types declare it private. */
export function checkOnItsOwn({ updater }: ElectronApp): Promise<void> {
	return (updater as unknown as { checkForUpdates(): Promise<void> }).checkForUpdates();
}

interface Loader {
	_load(request: string, ...rest: unknown[]): unknown;
}

const require_ = createRequire(import.meta.url);

/** Starts the app, as if its binary had just been opened. */
export async function startElectronApp(options: ElectronAppOptions): Promise<ElectronApp> {
	const loaded: string[] = [];
	const window = {
		on: () => undefined,
		loadFile: async (path: string) => {
			loaded.push(path);
		},
		loadURL: async (url: string) => {
			loaded.push(url);
		},
		webContents: { send: () => undefined, on: () => undefined },
		isDestroyed: () => false,
	};
	const { ElectronUpdater } = loadWithElectron({
		app: {
			getPath: () => options.userDirectory,
			getVersion: () => options.version,
			isPackaged: true,
			on: () => undefined,
		},
		safeStorage: { isEncryptionAvailable: () => false },
		BrowserWindow: { getFocusedWindow: () => null },
		ipcMain: { handle: () => undefined, removeHandler: () => undefined },
		globalShortcut: { register: () => true, unregister: () => undefined },
		Menu: class {},
		MenuItem: class {},
		dialog: { showErrorBox: () => undefined, showMessageBox: async () => ({ response: 0 }) },
	});
	const updater = new ElectronUpdater({
		appId: options.appId,
		updateUrl: `${options.url}/updates`,
		statsUrl: options.statsUrl ?? "",
		channelUrl: `${options.url}/channel_self`,
		version: options.version,
		// Without a period it never checks by itself; `checkOnItsOwn` stands for one such check.
		autoUpdate: true,
		...(options.defaultChannel === undefined ? {} : { defaultChannel: options.defaultChannel }),
	});
	await updater.initialize(window as never, join(options.userDirectory, "store-build", "index.html"));
	return { updater, loaded };
}

/**
 * The package with our `electron`, loaded again each time, because it reads `electron` when it is
 * loaded.
 */
function loadWithElectron(electron: object): typeof import("@capgo/electron-updater") {
	const loader = Module as unknown as Loader;
	const original = loader._load;
	loader._load = function load(request, ...rest) {
		return request === "electron" ? electron : original.call(this, request, ...rest);
	};
	try {
		delete require_.cache[require_.resolve("@capgo/electron-updater")];
		return require_("@capgo/electron-updater");
	} finally {
		loader._load = original;
	}
}
