package androidx.work;

import android.content.Context;
import androidx.lifecycle.LiveData;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Runs work on threads of this process. As on Android a worker is made anew for each attempt, a retry waits for its backoff, and
 * observers hear of each change of state once. A backoff passes {@link #HASTE} times as fast as on a phone, where it takes ten seconds
 * and more.
 */
public class WorkManager {
	private static final long HASTE = 100;
	private static WorkManager instance;

	private final Context context;
	private final ScheduledExecutorService threads = Executors.newScheduledThreadPool(4, (runnable) -> {
		final Thread thread = new Thread(runnable, "work");
		thread.setDaemon(true);
		return thread;
	});
	private final Map<String, Work> byName = new ConcurrentHashMap<>();
	private final Map<String, LiveData<List<WorkInfo>>> liveByTag = new ConcurrentHashMap<>();

	private WorkManager(Context context) {
		this.context = context;
	}

	public static synchronized void initialize(Context context, Configuration configuration) {
		if (instance != null) throw new IllegalStateException("WorkManager is already initialized");
		instance = new WorkManager(context);
	}

	public static synchronized WorkManager getInstance(Context context) {
		if (instance == null) instance = new WorkManager(context);
		return instance;
	}

	public WorkContinuation beginUniqueWork(String name, ExistingWorkPolicy policy, OneTimeWorkRequest request) {
		return () -> enqueueUniqueWork(name, policy, request);
	}

	public synchronized void enqueueUniqueWork(String name, ExistingWorkPolicy policy, OneTimeWorkRequest request) {
		final Work existing = byName.get(name);
		if (existing != null && !existing.state.isFinished()) {
			if (policy == ExistingWorkPolicy.KEEP) return;
			existing.cancel();
		}
		final Work work = new Work(request);
		byName.put(name, work);
		work.tell();
		threads.execute(work::attempt);
	}

	public void enqueueUniquePeriodicWork(String name, ExistingPeriodicWorkPolicy policy, PeriodicWorkRequest request) {
		throw new UnsupportedOperationException("periodic work");
	}

	public Future<List<WorkInfo>> getWorkInfosByTag(String tag) {
		return CompletableFuture.completedFuture(infos(tag));
	}

	public LiveData<List<WorkInfo>> getWorkInfosByTagLiveData(String tag) {
		return liveByTag.computeIfAbsent(tag, (created) -> new LiveData<>());
	}

	public void cancelUniqueWork(String name) {
		final Work work = byName.get(name);
		if (work != null) work.cancel();
	}

	public void cancelAllWorkByTag(String tag) {
		byName.values().stream().filter((work) -> work.request.tags.contains(tag)).forEach(Work::cancel);
	}

	private List<WorkInfo> infos(String tag) {
		return byName.values().stream().filter((work) -> work.request.tags.contains(tag)).map(Work::info).toList();
	}

	private final class Work {
		private final WorkRequest request;
		private volatile WorkInfo.State state = WorkInfo.State.ENQUEUED;
		private volatile Data progress = Data.EMPTY;
		private volatile Data output = Data.EMPTY;
		private volatile ListenableWorker worker;
		private int attempts = 0;

		Work(WorkRequest request) {
			this.request = request;
		}

		WorkInfo info() {
			return new WorkInfo(state, request.tags, progress, output);
		}

		void tell() {
			for (final String tag : request.tags) {
				final LiveData<List<WorkInfo>> live = liveByTag.get(tag);
				if (live != null) live.post(infos(tag));
			}
		}

		private synchronized boolean move(WorkInfo.State next, Data result) {
			if (state.isFinished()) return false;
			state = next;
			output = result;
			tell();
			return true;
		}

		void cancel() {
			if (!move(WorkInfo.State.CANCELLED, Data.EMPTY)) return;
			final ListenableWorker running = worker;
			if (running != null) running.stop();
		}

		void attempt() {
			if (!move(WorkInfo.State.RUNNING, Data.EMPTY)) return;
			attempts++;
			ListenableWorker.Result result;
			try {
				final Worker created = (Worker) request.workerClass
					.getConstructor(Context.class, WorkerParameters.class)
					.newInstance(context, new WorkerParameters(request.input, this::onProgress));
				worker = created;
				result = created.doWork();
			} catch (Throwable error) {
				error.printStackTrace();
				result = ListenableWorker.Result.failure(Data.EMPTY);
			}
			if (move(result.state, result.output) && !state.isFinished()) {
				threads.schedule(this::attempt, backoffMs() / HASTE, TimeUnit.MILLISECONDS);
			}
		}

		/** Under the lock, so that no observer hears of an end twice. */
		private synchronized void onProgress(Data next) {
			progress = next;
			if (state == WorkInfo.State.RUNNING) tell();
		}

		private long backoffMs() {
			return request.backoffPolicy == BackoffPolicy.LINEAR
				? request.backoffMs * attempts
				: request.backoffMs << (attempts - 1);
		}
	}
}
