package android.content.pm;

public class InstallSourceInfo {
	private final String installer;

	public InstallSourceInfo(String installer) {
		this.installer = installer;
	}

	public String getInstallingPackageName() {
		return installer;
	}

	public String getInitiatingPackageName() {
		return installer;
	}
}
