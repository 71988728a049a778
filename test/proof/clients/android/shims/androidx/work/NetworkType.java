package androidx.work;

public enum NetworkType {
	CONNECTED, NOT_REQUIRED,
}
