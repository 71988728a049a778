package androidx.work;

import java.util.Set;

/** How one work stood at one moment. */
public class WorkInfo {
	private final State state;
	private final Set<String> tags;
	private final Data progress;
	private final Data output;

	WorkInfo(State state, Set<String> tags, Data progress, Data output) {
		this.state = state;
		this.tags = tags;
		this.progress = progress;
		this.output = output;
	}

	public State getState() {
		return state;
	}

	public Set<String> getTags() {
		return tags;
	}

	public Data getProgress() {
		return progress;
	}

	public Data getOutputData() {
		return output;
	}

	public enum State {
		ENQUEUED,
		RUNNING,
		SUCCEEDED,
		FAILED,
		BLOCKED,
		CANCELLED;

		public boolean isFinished() {
			return this == SUCCEEDED || this == FAILED || this == CANCELLED;
		}
	}
}
