package org.json;

import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Android's JSONObject as far as the client uses it, with its habits: names keep their order, a null value removes its name, every
 * value can be read as text, and {@code NULL} reads as the text "null".
 */
public class JSONObject {
	public static final Object NULL = new Object() {
		@Override
		public boolean equals(Object other) {
			return other == this || other == null;
		}

		@Override
		public int hashCode() {
			return 0;
		}

		@Override
		public String toString() {
			return "null";
		}
	};

	private final Map<String, Object> values = new LinkedHashMap<>();

	public JSONObject() {}

	public JSONObject(Map<?, ?> copied) {
		copied.forEach((name, value) -> values.put((String) name, wrap(value)));
	}

	public JSONObject(JSONTokener tokener) throws JSONException {
		final Object value = tokener.nextValue();
		if (!(value instanceof JSONObject)) throw new JSONException("Not a JSON object: " + value);
		values.putAll(((JSONObject) value).values);
	}

	public JSONObject(String json) throws JSONException {
		this(new JSONTokener(json));
	}

	public static Object wrap(Object value) {
		if (value == null) return NULL;
		if (value instanceof Map) return new JSONObject((Map<?, ?>) value);
		if (value instanceof Collection) return new JSONArray((Collection<?>) value);
		return value;
	}

	public int length() {
		return values.size();
	}

	public boolean has(String name) {
		return values.containsKey(name);
	}

	public boolean isNull(String name) {
		final Object value = values.get(name);
		return value == null || value == NULL;
	}

	public Iterator<String> keys() {
		return values.keySet().iterator();
	}

	public JSONObject put(String name, Object value) throws JSONException {
		if (value == null) values.remove(name);
		else values.put(name, value);
		return this;
	}

	public Object opt(String name) {
		return values.get(name);
	}

	public Object get(String name) throws JSONException {
		final Object value = values.get(name);
		if (value == null) throw new JSONException("No value for " + name);
		return value;
	}

	public String getString(String name) throws JSONException {
		return String.valueOf(get(name));
	}

	public String optString(String name) {
		return optString(name, "");
	}

	public String optString(String name, String fallback) {
		final Object value = opt(name);
		return value == null ? fallback : String.valueOf(value);
	}

	public boolean getBoolean(String name) throws JSONException {
		final Boolean value = asBoolean(get(name));
		if (value == null) throw new JSONException("Not a boolean: " + name);
		return value;
	}

	public boolean optBoolean(String name, boolean fallback) {
		final Boolean value = asBoolean(opt(name));
		return value == null ? fallback : value;
	}

	public double getDouble(String name) throws JSONException {
		final Double value = asDouble(get(name));
		if (value == null) throw new JSONException("Not a number: " + name);
		return value;
	}

	public int optInt(String name, int fallback) {
		final Double value = asDouble(opt(name));
		return value == null ? fallback : value.intValue();
	}

	public JSONObject optJSONObject(String name) {
		final Object value = opt(name);
		return value instanceof JSONObject ? (JSONObject) value : null;
	}

	public JSONArray optJSONArray(String name) {
		final Object value = opt(name);
		return value instanceof JSONArray ? (JSONArray) value : null;
	}

	private static Boolean asBoolean(Object value) {
		if (value instanceof Boolean) return (Boolean) value;
		if ("true".equalsIgnoreCase(String.valueOf(value))) return true;
		if ("false".equalsIgnoreCase(String.valueOf(value))) return false;
		return null;
	}

	private static Double asDouble(Object value) {
		if (value instanceof Number) return ((Number) value).doubleValue();
		try {
			return value instanceof String ? Double.valueOf((String) value) : null;
		} catch (NumberFormatException notANumber) {
			return null;
		}
	}

	@Override
	public String toString() {
		final StringBuilder text = new StringBuilder("{");
		values.forEach((name, value) -> {
			if (text.length() > 1) text.append(',');
			write(text, name);
			text.append(':');
			write(text, value);
		});
		return text.append('}').toString();
	}

	static void write(StringBuilder text, Object value) {
		if (value == null || value == NULL) text.append("null");
		else if (value instanceof Boolean || value instanceof JSONObject || value instanceof JSONArray) text.append(value);
		else if (value instanceof Number) writeNumber(text, (Number) value);
		else writeString(text, value.toString());
	}

	/** A double without a fraction is written as a whole number, as on Android. */
	private static void writeNumber(StringBuilder text, Number number) {
		if (number.doubleValue() == number.longValue()) text.append(number.longValue());
		else text.append(number);
	}

	/** Android escapes the slash as well. */
	private static void writeString(StringBuilder text, String string) {
		text.append('"');
		for (final char next : string.toCharArray()) {
			if (next == '"' || next == '\\' || next == '/') text.append('\\').append(next);
			else if (next <= 0x1f) text.append(String.format("\\u%04x", (int) next));
			else text.append(next);
		}
		text.append('"');
	}
}
