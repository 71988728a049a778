package okhttp3;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

public class ResponseBody implements Closeable {
	private final InputStream stream;

	ResponseBody(InputStream stream) {
		this.stream = stream;
	}

	public InputStream byteStream() {
		return stream;
	}

	public String string() throws IOException {
		return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
	}

	@Override
	public void close() {
		try {
			stream.close();
		} catch (IOException ignored) {
			// OkHttp closes quietly.
		}
	}
}
