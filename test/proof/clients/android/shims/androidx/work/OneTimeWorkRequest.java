package androidx.work;

public class OneTimeWorkRequest extends WorkRequest {
	private OneTimeWorkRequest(Builder builder) {
		super(builder);
	}

	public static class Builder extends WorkRequest.Builder<Builder> {
		public Builder(Class<? extends ListenableWorker> workerClass) {
			super(workerClass);
		}

		@Override
		Builder self() {
			return this;
		}

		public OneTimeWorkRequest build() {
			return new OneTimeWorkRequest(this);
		}
	}
}
