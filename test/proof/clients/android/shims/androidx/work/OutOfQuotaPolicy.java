package androidx.work;

public enum OutOfQuotaPolicy {
	RUN_AS_NON_EXPEDITED_WORK_REQUEST,
}
