package okhttp3;

public class RequestBody {
	final String content;
	final MediaType type;

	private RequestBody(String content, MediaType type) {
		this.content = content;
		this.type = type;
	}

	public static RequestBody create(String content, MediaType type) {
		return new RequestBody(content, type.withCharset());
	}
}
