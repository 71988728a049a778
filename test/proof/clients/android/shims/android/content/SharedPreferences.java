package android.content;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.json.JSONException;
import org.json.JSONObject;

/** Preferences in a JSON file, so that they outlive the process as a phone's do. Written at each commit and apply. */
public class SharedPreferences {
	private final File file;
	private final Map<String, String> values = new ConcurrentHashMap<>();

	public SharedPreferences(File file) {
		this.file = file;
		if (!file.exists()) return;
		try {
			final JSONObject stored = new JSONObject(Files.readString(file.toPath()));
			for (final Iterator<String> names = stored.keys(); names.hasNext(); ) {
				final String name = names.next();
				values.put(name, stored.getString(name));
			}
		} catch (IOException | JSONException error) {
			throw new IllegalStateException("Unreadable preferences: " + file, error);
		}
	}

	public String getString(String name, String fallback) {
		return values.getOrDefault(name, fallback);
	}

	public boolean contains(String name) {
		return values.containsKey(name);
	}

	public Map<String, ?> getAll() {
		return Map.copyOf(values);
	}

	public Editor edit() {
		return new Editor();
	}

	public class Editor {
		public Editor putString(String name, String value) {
			if (value == null) values.remove(name);
			else values.put(name, value);
			return this;
		}

		public Editor remove(String name) {
			values.remove(name);
			return this;
		}

		public void apply() {
			commit();
		}

		public boolean commit() {
			synchronized (values) {
				try {
					Files.writeString(file.toPath(), new JSONObject(values).toString());
				} catch (IOException error) {
					throw new UncheckedIOException(error);
				}
			}
			return true;
		}
	}
}
