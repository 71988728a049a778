package androidx.work;

import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** Work to do: which worker, with what input, under which tags, and how long to wait before trying again. */
public abstract class WorkRequest {
	public static final long MIN_BACKOFF_MILLIS = 10_000L;

	final Class<? extends ListenableWorker> workerClass;
	final Data input;
	final Set<String> tags;
	final BackoffPolicy backoffPolicy;
	final long backoffMs;

	WorkRequest(Builder<?> builder) {
		this.workerClass = builder.workerClass;
		this.input = builder.input;
		this.tags = Set.copyOf(builder.tags);
		this.backoffPolicy = builder.backoffPolicy;
		this.backoffMs = builder.backoffMs;
	}

	public abstract static class Builder<B extends Builder<B>> {
		private final Class<? extends ListenableWorker> workerClass;
		private final Set<String> tags = new LinkedHashSet<>();
		private Data input = Data.EMPTY;
		private BackoffPolicy backoffPolicy = BackoffPolicy.EXPONENTIAL;
		private long backoffMs = 30_000;

		Builder(Class<? extends ListenableWorker> workerClass) {
			this.workerClass = workerClass;
			// WorkManager gives every work its worker's name as a tag.
			tags.add(workerClass.getName());
		}

		abstract B self();

		public B setInputData(Data data) {
			input = data;
			return self();
		}

		public B addTag(String tag) {
			tags.add(tag);
			return self();
		}

		public B setConstraints(Constraints constraints) {
			return self();
		}

		public B setExpedited(OutOfQuotaPolicy policy) {
			return self();
		}

		public B setInitialDelay(long delay, TimeUnit unit) {
			return self();
		}

		public B setBackoffCriteria(BackoffPolicy policy, long delay, TimeUnit unit) {
			backoffPolicy = policy;
			backoffMs = unit.toMillis(delay);
			return self();
		}
	}
}
