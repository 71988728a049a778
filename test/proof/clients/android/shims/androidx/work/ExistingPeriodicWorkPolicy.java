package androidx.work;

public enum ExistingPeriodicWorkPolicy {
	UPDATE,
}
