package android.content;

import android.content.pm.ApplicationInfo;
import android.content.pm.PackageManager;
import android.content.res.AssetManager;
import java.io.File;

/** An installed app: its directories below one root, where `assets` holds what the store delivered. */
public class Context {
	private final File root;
	private final String packageName;
	private final boolean debuggable;
	private final PackageManager packageManager;

	public Context(File root, String packageName, boolean debuggable, String installer) {
		this.root = root;
		this.packageName = packageName;
		this.debuggable = debuggable;
		this.packageManager = new PackageManager(installer);
	}

	private File directory(String name) {
		final File directory = new File(root, name);
		if (!directory.isDirectory() && !directory.mkdirs()) throw new IllegalStateException("Cannot create " + directory);
		return directory;
	}

	public File getFilesDir() {
		return directory("files");
	}

	public File getCacheDir() {
		return directory("cache");
	}

	public File getNoBackupFilesDir() {
		return directory("no-backup");
	}

	public AssetManager getAssets() {
		return new AssetManager(directory("assets"));
	}

	public SharedPreferences getSharedPreferences(String name, int mode) {
		return new SharedPreferences(new File(directory("preferences"), name + ".json"));
	}

	public Context getApplicationContext() {
		return this;
	}

	public String getPackageName() {
		return packageName;
	}

	public PackageManager getPackageManager() {
		return packageManager;
	}

	public ApplicationInfo getApplicationInfo() {
		return new ApplicationInfo(packageName, debuggable);
	}
}
