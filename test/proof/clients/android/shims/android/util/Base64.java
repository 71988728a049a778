package android.util;

/** Android's decoder skips line breaks, as Java's MIME decoder does. */
public class Base64 {
	public static final int DEFAULT = 0;

	public static byte[] decode(String text, int flags) {
		return java.util.Base64.getMimeDecoder().decode(text);
	}

	public static byte[] decode(byte[] text, int flags) {
		return java.util.Base64.getMimeDecoder().decode(text);
	}
}
