package androidx.work;

import android.content.Context;

public abstract class Worker extends ListenableWorker {
	protected Worker(Context context, WorkerParameters parameters) {
		super(context, parameters);
	}

	public abstract Result doWork();
}
