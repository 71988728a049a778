package org.json;

/**
 * Reads JSON. Stricter than Android's reader, which takes unquoted names, comments and single quotes: an answer that only a lenient
 * reader understands fails here. As on Android, text after the first value is left alone.
 */
public class JSONTokener {
	private final String text;
	private int at = 0;

	public JSONTokener(String text) {
		this.text = text;
	}

	public Object nextValue() throws JSONException {
		final char first = peek();
		switch (first) {
			case '{':
				return object();
			case '[':
				return array();
			case '"':
				return string();
			default:
				return literal();
		}
	}

	private JSONException error(String message) {
		return new JSONException(message + " at character " + at + " of " + text);
	}

	private char peek() throws JSONException {
		while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
		if (at >= text.length()) throw error("End of input");
		return text.charAt(at);
	}

	private boolean take(char wanted) throws JSONException {
		if (peek() != wanted) return false;
		at++;
		return true;
	}

	private void expect(char wanted) throws JSONException {
		if (!take(wanted)) throw error("Expected " + wanted);
	}

	private JSONObject object() throws JSONException {
		final JSONObject result = new JSONObject();
		expect('{');
		if (take('}')) return result;
		do {
			peek();
			final String name = string();
			expect(':');
			result.put(name, nextValue());
		} while (take(','));
		expect('}');
		return result;
	}

	private JSONArray array() throws JSONException {
		final JSONArray result = new JSONArray();
		expect('[');
		if (take(']')) return result;
		do {
			result.put(nextValue());
		} while (take(','));
		expect(']');
		return result;
	}

	private String string() throws JSONException {
		expect('"');
		final StringBuilder result = new StringBuilder();
		while (at < text.length()) {
			final char next = text.charAt(at++);
			if (next == '"') return result.toString();
			result.append(next == '\\' ? escaped() : next);
		}
		throw error("Unterminated string");
	}

	private char escaped() throws JSONException {
		if (at >= text.length()) throw error("Unterminated escape");
		final char kind = text.charAt(at++);
		switch (kind) {
			case 'u':
				if (at + 4 > text.length()) throw error("Unterminated escape");
				at += 4;
				return (char) Integer.parseInt(text.substring(at - 4, at), 16);
			case 't':
				return '\t';
			case 'b':
				return '\b';
			case 'n':
				return '\n';
			case 'r':
				return '\r';
			case 'f':
				return '\f';
			case '"':
			case '\\':
			case '/':
				return kind;
			default:
				throw error("Unknown escape");
		}
	}

	private Object literal() throws JSONException {
		final int start = at;
		while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) at++;
		final String word = text.substring(start, at);
		switch (word) {
			case "null":
				return JSONObject.NULL;
			case "true":
				return true;
			case "false":
				return false;
			default:
				return number(word);
		}
	}

	/** The smallest of Integer, Long and Double that holds it, as on Android. */
	private Object number(String word) throws JSONException {
		if (!word.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) throw error("Not JSON: " + word);
		try {
			final long whole = Long.parseLong(word);
			if (whole == (int) whole) return (int) whole;
			return whole;
		} catch (NumberFormatException notWhole) {
			return Double.parseDouble(word);
		}
	}
}
