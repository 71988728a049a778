package com.getcapacitor;

import org.json.JSONException;
import org.json.JSONObject;

/** Capacitor's JSONObject whose put throws nothing. */
public class JSObject extends JSONObject {
	@Override
	public JSObject put(String name, Object value) {
		try {
			super.put(name, value);
		} catch (JSONException impossible) {
			throw new IllegalStateException(impossible);
		}
		return this;
	}
}
