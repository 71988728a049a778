package okhttp3;

public enum Protocol {
	HTTP_1_1,
	HTTP_2,
}
