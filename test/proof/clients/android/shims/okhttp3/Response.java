package okhttp3;

import java.io.Closeable;
import java.net.http.HttpHeaders;

public class Response implements Closeable {
	private final int code;
	private final HttpHeaders headers;
	private final ResponseBody body;

	Response(int code, HttpHeaders headers, ResponseBody body) {
		this.code = code;
		this.headers = headers;
		this.body = body;
	}

	public int code() {
		return code;
	}

	public boolean isSuccessful() {
		return code >= 200 && code < 300;
	}

	public String header(String name) {
		return headers.firstValue(name).orElse(null);
	}

	public ResponseBody body() {
		return body;
	}

	@Override
	public void close() {
		body.close();
	}
}
