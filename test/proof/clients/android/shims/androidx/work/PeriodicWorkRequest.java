package androidx.work;

import java.util.concurrent.TimeUnit;

/** Only for another plugin's work, which no test has: the client does not come to enqueue it. */
public class PeriodicWorkRequest extends WorkRequest {
	private PeriodicWorkRequest(Builder builder) {
		super(builder);
	}

	public static class Builder extends WorkRequest.Builder<Builder> {
		public Builder(Class<? extends ListenableWorker> workerClass, long interval, TimeUnit unit) {
			super(workerClass);
		}

		@Override
		Builder self() {
			return this;
		}

		public PeriodicWorkRequest build() {
			return new PeriodicWorkRequest(this);
		}
	}
}
