package androidx.work;

public enum ExistingWorkPolicy {
	KEEP, REPLACE,
}
