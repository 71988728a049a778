package androidx.work;

import android.content.Context;

public abstract class ListenableWorker {
	private final Context context;
	private final WorkerParameters parameters;
	private volatile boolean stopped = false;

	protected ListenableWorker(Context context, WorkerParameters parameters) {
		this.context = context;
		this.parameters = parameters;
	}

	public Context getApplicationContext() {
		return context;
	}

	public Data getInputData() {
		return parameters.input;
	}

	public void setProgressAsync(Data progress) {
		parameters.onProgress.accept(progress);
	}

	public boolean isStopped() {
		return stopped;
	}

	void stop() {
		stopped = true;
	}

	public static class Result {
		final WorkInfo.State state;
		final Data output;

		private Result(WorkInfo.State state, Data output) {
			this.state = state;
			this.output = output;
		}

		public static Result success(Data output) {
			return new Result(WorkInfo.State.SUCCEEDED, output);
		}

		public static Result failure(Data output) {
			return new Result(WorkInfo.State.FAILED, output);
		}

		/** Back to the queue until the backoff has passed. */
		public static Result retry() {
			return new Result(WorkInfo.State.ENQUEUED, Data.EMPTY);
		}
	}
}
