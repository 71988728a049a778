package ee.forgr.capacitor_updater;

import android.app.Activity;
import android.content.SharedPreferences;
import android.os.Build;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.json.JSONArray;
import org.json.JSONObject;

/**
 * One phone with one app, for as long as this process lives: it makes the calls on the client that the plugin's bridge to JavaScript
 * makes, and nothing else. One JSON object a line comes in, {@code {id, command, ...}}; one goes out, {@code {id, result}} or
 * {@code {id, failure}}, and {@code {event, data}} for what the client tells its listeners. Commands run side by side.
 */
public final class Driver {
	private static final String CHANNEL_PREFERENCE = "CapacitorUpdater.defaultChannel";
	private static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, StandardCharsets.UTF_8);

	private final JSONObject options;
	private final SharedPreferences.Editor editor;
	private final CapgoUpdater client;

	private Driver(JSONObject options) throws Exception {
		this.options = options;
		if (options.optBoolean("isEmulator", false)) Build.PRODUCT = "sdk_gphone64_arm64";
		final Logger logger = new Logger("phone");
		logger.setLevelName("debug");
		CryptoCipher.setLogger(logger);
		DownloadService.setLogger(logger);
		DownloadWorkerManager.setLogger(logger);
		client = new CapgoUpdater(logger) {
			private int lastPercent = 0;

			/** What the plugin does with it: one statistic for each ten percent. */
			@Override
			void notifyDownload(String id, int percent) {
				if (percent == 100) {
					sendStats("download_complete", getBundleInfo(id).getVersionName());
				} else if ((percent / 10) * 10 > lastPercent) {
					sendStats("download_" + (percent / 10) * 10, getBundleInfo(id).getVersionName());
				}
				lastPercent = (percent / 10) * 10;
			}

			@Override
			void notifyListeners(String name, Map<String, Object> data) {
				send(Map.of("event", name, "data", new HashMap<>(data)));
			}
		};
		final Activity activity = new Activity(
			new File(options.getString("directory")),
			options.getString("appId"),
			!options.optBoolean("isProd", true),
			options.optString("installer", null)
		);
		final SharedPreferences preferences = activity.getSharedPreferences("CapWebViewSettings", 0);
		editor = preferences.edit();
		client.activity = activity;
		client.versionBuild = options.getString("versionBuild");
		client.CAP_SERVER_PATH = "serverBasePath";
		client.pluginVersion = options.getString("pluginVersion");
		client.versionCode = options.getString("versionCode");
		client.appId = options.getString("appId");
		client.setPublicKey(options.optString("publicKey", ""));
		client.statsUrl = options.getString("statsUrl");
		client.channelUrl = options.getString("channelUrl");
		client.defaultChannel = preferences.getString(CHANNEL_PREFERENCE, options.optString("defaultChannel", ""));
		client.documentsDir = activity.getFilesDir();
		client.noBackupDir = activity.getNoBackupFilesDir();
		client.prefs = preferences;
		client.editor = editor;
		client.versionOs = options.getString("versionOs");
		client.deviceID = options.getString("deviceId");
		client.customId = options.optString("customId", "");
		client.restorePendingStats();
		DownloadService.updateUserAgent(client.appId, client.pluginVersion, client.versionOs);
		DownloadService.applyHttpTimeouts(client.timeout);
		client.autoReset(client.versionCode);
	}

	private Object run(String command, JSONObject call) throws Exception {
		switch (command) {
			case "getLatest":
				return answer((done) -> client.getLatest(options.optString("updateUrl"), call.optString("channel", null), done));
			case "download": {
				final JSONArray manifest = call.optJSONArray("manifest");
				final String url = call.optString("url", "");
				final String version = call.getString("version");
				final String sessionKey = call.optString("sessionKey", "");
				final String checksum = call.optString("checksum", "");
				return manifest == null
					? client.download(url, version, sessionKey, checksum).toJSONMap()
					: client.downloadManifest(url, version, sessionKey, checksum, manifest).toJSONMap();
			}
			case "downloadInBackground":
				client.downloadBackground(
					call.optString("url", ""),
					call.getString("version"),
					call.optString("sessionKey", ""),
					call.optString("checksum", ""),
					call.optJSONArray("manifest")
				);
				return null;
			case "missing":
				return client.missingBundleFilesResult(call.optJSONArray("manifest"), call.optString("sessionKey", ""));
			case "downloadSize":
				return client.getBundleDownloadSize(
					options.optString("updateUrl"),
					call.getString("version"),
					call.optJSONArray("manifest")
				);
			case "set":
				return client.set(call.getString("bundle"));
			case "next":
				return client.setNextBundle(call.getString("bundle"));
			case "moveToBackground":
				return installNext();
			case "ready":
				client.setSuccess(client.getCurrentBundle(), true);
				return null;
			case "neverReady":
				rollBack();
				return null;
			case "reset":
				client.reset();
				return null;
			case "current": {
				final Map<String, Object> current = new HashMap<>(client.getCurrentBundle().toJSONMap());
				current.put("path", client.getCurrentBundlePath());
				return current;
			}
			case "list": {
				final List<Object> bundles = new ArrayList<>();
				for (final BundleInfo bundle : client.list(false)) bundles.add(bundle.toJSONMap());
				return bundles;
			}
			case "setChannel":
				return answer((done) ->
					client.setChannel(call.optString("channel"), editor, CHANNEL_PREFERENCE, true, configuredChannel(), done)
				);
			case "unsetChannel":
				return answer((done) -> client.unsetChannel(editor, CHANNEL_PREFERENCE, configuredChannel(), done));
			case "getChannel":
				return answer((done) -> client.getChannel(done, editor, CHANNEL_PREFERENCE));
			case "listChannels":
				return answer(client::listChannels);
			case "defaultChannel":
				return client.defaultChannel;
			case "sendStats":
				client.sendStats(
					call.getString("action"),
					call.optString("version", client.getCurrentBundle().getVersionName()),
					call.optString("oldVersion", ""),
					metadata(call.optJSONObject("metadata"))
				);
				return null;
			case "unzip":
				return client.unzip("odd", new File(call.getString("file")), call.getString("directory")).getPath();
			case "pendingStats":
				return client.pendingStatsCount();
			default:
				throw new IllegalArgumentException("Unknown command " + command);
		}
	}

	/** What the plugin does when the app leaves the foreground. */
	private Object installNext() {
		final BundleInfo next = client.getNextBundle();
		if (next == null || next.isErrorStatus()) return false;
		client.set(next);
		client.setNextBundle(null);
		return true;
	}

	/** What the plugin does when the page of a new bundle does not call notifyAppReady in time. */
	private void rollBack() throws Exception {
		final BundleInfo failed = client.getCurrentBundle();
		if (failed.isBuiltin() || failed.getStatus() == BundleStatus.SUCCESS) return;
		client.sendStats("update_fail", failed.getVersionName());
		client.setError(failed);
		final BundleInfo fallback = client.getFallbackBundle();
		if (fallback.isBuiltin() || !client.set(fallback)) client.reset(true);
		client.delete(failed.getId(), false);
	}

	private String configuredChannel() {
		return options.optString("defaultChannel", "");
	}

	private static Map<String, String> metadata(JSONObject given) {
		if (given == null) return null;
		final Map<String, String> metadata = new HashMap<>();
		given.keys().forEachRemaining((name) -> metadata.put(name, given.optString(name)));
		return metadata;
	}

	private interface Asked {
		void ask(Callback done) throws Exception;
	}

	private static Object answer(Asked asked) throws Exception {
		final CompletableFuture<Map<String, Object>> answer = new CompletableFuture<>();
		asked.ask(answer::complete);
		return answer.get();
	}

	private static void send(Map<String, Object> line) {
		OUT.println(new JSONObject(line));
	}

	private static void handle(Driver driver, JSONObject call) {
		final Map<String, Object> line = new HashMap<>();
		line.put("id", call.opt("id"));
		try {
			line.put("result", driver.run(call.getString("command"), call));
		} catch (Throwable failure) {
			failure.printStackTrace();
			line.put("failure", String.valueOf(failure.getMessage()));
		}
		send(line);
	}

	/** Ends with its input, as an app that the user closes: what was not sent is kept for the next start. */
	public static void main(String[] arguments) throws Exception {
		final Driver driver = new Driver(new JSONObject(arguments[0]));
		send(Map.of("event", "started"));
		final BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
		for (String line = calls.readLine(); line != null; line = calls.readLine()) {
			final JSONObject call = new JSONObject(line);
			new Thread(() -> handle(driver, call)).start();
		}
		driver.client.shutdown();
		System.exit(0);
	}
}
