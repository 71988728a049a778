package okhttp3;

import java.net.URI;
import java.nio.charset.StandardCharsets;

/** An http address; encodes query parameters as OkHttp does: a space as %20, a plus as %2B. */
public class HttpUrl {
	private final String beforeQuery;
	private final String query;

	private HttpUrl(String beforeQuery, String query) {
		this.beforeQuery = beforeQuery;
		this.query = query;
	}

	public static HttpUrl parse(String text) {
		try {
			final URI uri = URI.create(text);
			if (!"http".equals(uri.getScheme()) && !"https".equals(uri.getScheme())) return null;
			if (uri.getHost() == null) return null;
			final String path = uri.getRawPath().isEmpty() ? "/" : uri.getRawPath();
			return new HttpUrl(uri.getScheme() + "://" + uri.getRawAuthority() + path, uri.getRawQuery());
		} catch (IllegalArgumentException malformed) {
			return null;
		}
	}

	public Builder newBuilder() {
		return new Builder(this);
	}

	@Override
	public String toString() {
		return query == null ? beforeQuery : beforeQuery + "?" + query;
	}

	public static class Builder {
		private static final String UNENCODED = "*-._";
		private String beforeQuery;
		private String query;

		private Builder(HttpUrl url) {
			beforeQuery = url.beforeQuery;
			query = url.query;
		}

		public Builder addPathSegment(String segment) {
			beforeQuery += (beforeQuery.endsWith("/") ? "" : "/") + segment;
			return this;
		}

		public Builder query(String text) {
			query = text;
			return this;
		}

		public Builder addQueryParameter(String name, String value) {
			query = (query == null ? "" : query + "&") + encode(name) + "=" + encode(value);
			return this;
		}

		public HttpUrl build() {
			return new HttpUrl(beforeQuery, query);
		}

		private static String encode(String text) {
			final StringBuilder encoded = new StringBuilder();
			for (final byte unit : text.getBytes(StandardCharsets.UTF_8)) {
				final char letter = (char) (unit & 0xff);
				final boolean plain = letter < 0x80 && (Character.isLetterOrDigit(letter) || UNENCODED.indexOf(letter) >= 0);
				encoded.append(plain ? String.valueOf(letter) : String.format("%%%02X", unit & 0xff));
			}
			return encoded.toString();
		}
	}
}
