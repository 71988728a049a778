package org.json;

/** Checked, as on Android: the client's code says where it expects one. */
public class JSONException extends Exception {
	public JSONException(String message) {
		super(message);
	}
}
