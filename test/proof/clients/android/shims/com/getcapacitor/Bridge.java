package com.getcapacitor;

/** The way into the page; here there is no page. */
public class Bridge {
	public Object getWebView() {
		return null;
	}

	public void eval(String script, Object callback) {}
}
