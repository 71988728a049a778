package androidx.work;

public interface WorkContinuation {
	void enqueue();
}
