package org.json;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/** Android's JSONArray as far as the client uses it. */
public class JSONArray {
	private final List<Object> values = new ArrayList<>();

	public JSONArray() {}

	public JSONArray(Collection<?> copied) {
		copied.forEach((value) -> values.add(JSONObject.wrap(value)));
	}

	public JSONArray(String json) throws JSONException {
		final Object value = new JSONTokener(json).nextValue();
		if (!(value instanceof JSONArray)) throw new JSONException("Not a JSON array: " + value);
		values.addAll(((JSONArray) value).values);
	}

	public int length() {
		return values.size();
	}

	public JSONArray put(Object value) {
		values.add(value);
		return this;
	}

	public JSONObject getJSONObject(int index) throws JSONException {
		final Object value = index < values.size() ? values.get(index) : null;
		if (!(value instanceof JSONObject)) throw new JSONException("Not an object: " + index);
		return (JSONObject) value;
	}

	@Override
	public String toString() {
		final StringBuilder text = new StringBuilder("[");
		for (final Object value : values) {
			if (text.length() > 1) text.append(',');
			JSONObject.write(text, value);
		}
		return text.append(']').toString();
	}
}
