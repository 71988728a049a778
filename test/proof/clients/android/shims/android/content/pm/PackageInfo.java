package android.content.pm;

public class PackageInfo {
	public final String packageName;

	public PackageInfo(String packageName) {
		this.packageName = packageName;
	}
}
