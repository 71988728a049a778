package android.util;

/** The system log: standard error, since standard output belongs to the protocol with the tests. */
public class Log {
	public static final int INFO = 4;

	public static int e(String tag, String message) {
		return write("E", tag, message);
	}

	public static int w(String tag, String message) {
		return write("W", tag, message);
	}

	public static int i(String tag, String message) {
		return write("I", tag, message);
	}

	public static int d(String tag, String message) {
		return write("D", tag, message);
	}

	private static int write(String level, String tag, String message) {
		System.err.println(level + " " + tag + ": " + message);
		return 0;
	}
}
