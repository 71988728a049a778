package okhttp3;

public class MediaType {
	private final String text;

	private MediaType(String text) {
		this.text = text;
	}

	public static MediaType get(String text) {
		return new MediaType(text);
	}

	/** OkHttp sends text with a media type that names no character set as UTF-8, and says so. */
	MediaType withCharset() {
		return text.contains("charset=") ? this : new MediaType(text + "; charset=utf-8");
	}

	@Override
	public String toString() {
		return text;
	}
}
