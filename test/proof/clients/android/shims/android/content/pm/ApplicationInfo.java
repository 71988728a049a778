package android.content.pm;

public class ApplicationInfo {
	public static final int FLAG_DEBUGGABLE = 2;
	public final String packageName;
	public final int flags;

	public ApplicationInfo(String packageName, boolean debuggable) {
		this.packageName = packageName;
		this.flags = debuggable ? FLAG_DEBUGGABLE : 0;
	}
}
