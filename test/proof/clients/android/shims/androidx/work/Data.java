package androidx.work;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** Input and output of work; like Android's it refuses more than 10 KiB, so an address that no phone could pass on fails here too. */
public class Data {
	private static final int MAX_BYTES = 10_240;
	static final Data EMPTY = new Data(Map.of());
	private final Map<String, Object> values;

	private Data(Map<String, Object> values) {
		this.values = values;
	}

	public String getString(String key) {
		return (String) values.get(key);
	}

	public int getInt(String key, int fallback) {
		return values.get(key) == null ? fallback : (Integer) values.get(key);
	}

	public boolean getBoolean(String key, boolean fallback) {
		return values.get(key) == null ? fallback : (Boolean) values.get(key);
	}

	public static class Builder {
		private final Map<String, Object> values = new HashMap<>();

		public Builder putString(String key, String value) {
			values.put(key, value);
			return this;
		}

		public Builder putInt(String key, int value) {
			values.put(key, value);
			return this;
		}

		public Builder putBoolean(String key, boolean value) {
			values.put(key, value);
			return this;
		}

		public Data build() {
			int bytes = 0;
			for (final Map.Entry<String, Object> entry : values.entrySet()) {
				bytes += (entry.getKey() + entry.getValue()).getBytes(StandardCharsets.UTF_8).length;
			}
			if (bytes > MAX_BYTES) throw new IllegalStateException("Data cannot occupy more than " + MAX_BYTES + " bytes");
			return new Data(values);
		}
	}
}
