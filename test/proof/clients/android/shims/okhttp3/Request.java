package okhttp3;

import java.util.LinkedHashMap;
import java.util.Map;

public class Request {
	final String url;
	final String method;
	final RequestBody body;
	final Map<String, String> headers;

	private Request(Builder builder) {
		this.url = builder.url;
		this.method = builder.method;
		this.body = builder.body;
		this.headers = Map.copyOf(builder.headers);
	}

	public Builder newBuilder() {
		final Builder builder = new Builder().url(url).method(method, body);
		builder.headers.putAll(headers);
		return builder;
	}

	public static class Builder {
		private String url;
		private String method = "GET";
		private RequestBody body;
		private final Map<String, String> headers = new LinkedHashMap<>();

		public Builder url(String text) {
			final HttpUrl parsed = HttpUrl.parse(text);
			if (parsed == null) throw new IllegalArgumentException("Expected an http address: " + text);
			return url(parsed);
		}

		public Builder url(HttpUrl address) {
			url = address.toString();
			return this;
		}

		public Builder get() {
			return method("GET", null);
		}

		public Builder post(RequestBody content) {
			return method("POST", content);
		}

		public Builder put(RequestBody content) {
			return method("PUT", content);
		}

		public Builder header(String name, String value) {
			headers.put(name, value);
			return this;
		}

		private Builder method(String name, RequestBody content) {
			method = name;
			body = content;
			return this;
		}

		public Request build() {
			return new Request(this);
		}
	}
}
