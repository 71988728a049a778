package okhttp3;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.zip.GZIPInputStream;

/**
 * OkHttp's calls over the JDK's HTTP client. Sends what OkHttp would: HTTP/1.1 to a plain address without an offer to upgrade, gzip
 * asked for and unpacked unseen where the caller chose no encoding and no range, redirects followed.
 */
public class OkHttpClient {
	private final Builder settings;
	private final HttpClient client;

	private OkHttpClient(Builder settings) {
		this.settings = settings;
		this.client = HttpClient.newBuilder()
			.version(HttpClient.Version.HTTP_1_1)
			.followRedirects(HttpClient.Redirect.NORMAL)
			.connectTimeout(Duration.ofMillis(settings.connectTimeoutMs))
			.build();
	}

	public Call newCall(Request request) {
		return new Call() {
			@Override
			public Response execute() throws IOException {
				return proceed(request, 0);
			}

			@Override
			public void enqueue(Callback callback) {
				settings.dispatcher.threads().execute(() -> run(this, callback));
			}
		};
	}

	private static void run(Call call, Callback callback) {
		final Response response;
		try {
			response = call.execute();
		} catch (IOException error) {
			callback.onFailure(call, error);
			return;
		}
		try {
			callback.onResponse(call, response);
		} catch (IOException error) {
			// OkHttp logs it and tells the callback no more.
			error.printStackTrace();
		}
	}

	private Response proceed(Request request, int interceptor) throws IOException {
		if (interceptor == settings.interceptors.size()) return send(request);
		return settings.interceptors.get(interceptor).intercept(new Interceptor.Chain() {
			@Override
			public Request request() {
				return request;
			}

			@Override
			public Response proceed(Request changed) throws IOException {
				return OkHttpClient.this.proceed(changed, interceptor + 1);
			}
		});
	}

	private Response send(Request request) throws IOException {
		final boolean unpacks = !request.headers.containsKey("Accept-Encoding") && !request.headers.containsKey("Range");
		final HttpRequest.Builder outgoing = HttpRequest.newBuilder(URI.create(request.url))
			.timeout(Duration.ofMillis(settings.readTimeoutMs));
		if (request.body == null) outgoing.GET();
		else outgoing.method(request.method, HttpRequest.BodyPublishers.ofString(request.body.content));
		request.headers.forEach(outgoing::setHeader);
		if (unpacks) outgoing.setHeader("Accept-Encoding", "gzip");
		if (request.body != null) outgoing.setHeader("Content-Type", request.body.type.toString());
		final HttpResponse<InputStream> answer;
		try {
			answer = client.send(outgoing.build(), HttpResponse.BodyHandlers.ofInputStream());
		} catch (InterruptedException interrupted) {
			Thread.currentThread().interrupt();
			throw new IOException(interrupted);
		}
		final boolean packed = unpacks && answer.headers().firstValue("Content-Encoding").filter("gzip"::equalsIgnoreCase).isPresent();
		return new Response(
			answer.statusCode(),
			answer.headers(),
			new ResponseBody(packed ? new GZIPInputStream(answer.body()) : answer.body())
		);
	}

	public int connectTimeoutMillis() {
		return settings.connectTimeoutMs;
	}

	public int readTimeoutMillis() {
		return settings.readTimeoutMs;
	}

	public int writeTimeoutMillis() {
		return settings.writeTimeoutMs;
	}

	public Builder newBuilder() {
		return new Builder(settings);
	}

	public static class Builder {
		private Dispatcher dispatcher = new Dispatcher();
		private List<Interceptor> interceptors = List.of();
		private int connectTimeoutMs = 10_000;
		private int readTimeoutMs = 10_000;
		private int writeTimeoutMs = 10_000;

		public Builder() {}

		private Builder(Builder copied) {
			dispatcher = copied.dispatcher;
			interceptors = copied.interceptors;
			connectTimeoutMs = copied.connectTimeoutMs;
			readTimeoutMs = copied.readTimeoutMs;
			writeTimeoutMs = copied.writeTimeoutMs;
		}

		public Builder dispatcher(Dispatcher chosen) {
			dispatcher = chosen;
			return this;
		}

		public Builder protocols(List<Protocol> protocols) {
			return this;
		}

		public Builder connectTimeout(long timeout, TimeUnit unit) {
			connectTimeoutMs = (int) unit.toMillis(timeout);
			return this;
		}

		public Builder readTimeout(long timeout, TimeUnit unit) {
			readTimeoutMs = (int) unit.toMillis(timeout);
			return this;
		}

		public Builder writeTimeout(long timeout, TimeUnit unit) {
			writeTimeoutMs = (int) unit.toMillis(timeout);
			return this;
		}

		public Builder addInterceptor(Interceptor interceptor) {
			final List<Interceptor> all = new java.util.ArrayList<>(interceptors);
			all.add(interceptor);
			interceptors = List.copyOf(all);
			return this;
		}

		public OkHttpClient build() {
			return new OkHttpClient(new Builder(this));
		}
	}
}
