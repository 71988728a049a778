package android.content.pm;

/** Knows the one app and the store that installed it; null for an app that no store installed. */
public class PackageManager {
	private final String installer;

	public PackageManager(String installer) {
		this.installer = installer;
	}

	public InstallSourceInfo getInstallSourceInfo(String packageName) {
		return new InstallSourceInfo(installer);
	}

	public String getInstallerPackageName(String packageName) {
		return installer;
	}

	public PackageInfo getPackageInfo(String packageName, int flags) throws NameNotFoundException {
		return new PackageInfo(packageName);
	}

	public PackageInfo getPackageInfo(String packageName, PackageInfoFlags flags) throws NameNotFoundException {
		return new PackageInfo(packageName);
	}

	public static class NameNotFoundException extends Exception {}

	public static class PackageInfoFlags {
		public static PackageInfoFlags of(long value) {
			return new PackageInfoFlags();
		}
	}
}
