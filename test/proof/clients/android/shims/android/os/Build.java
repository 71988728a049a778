package android.os;

/** What the phone is: a bought one, unless the driver makes it an emulator before the client starts. */
public class Build {
	public static String BRAND = "google";
	public static String DEVICE = "oriole";
	public static String FINGERPRINT = "google/oriole/oriole:14/AP2A.240805.005/12025142:user/release-keys";
	public static String HARDWARE = "oriole";
	public static String MODEL = "Pixel 6";
	public static String MANUFACTURER = "Google";
	public static String PRODUCT = "oriole";

	public static class VERSION {
		public static final int SDK_INT = 34;
	}

	public static class VERSION_CODES {
		public static final int R = 30;
		public static final int S = 31;
		public static final int TIRAMISU = 33;
	}
}
