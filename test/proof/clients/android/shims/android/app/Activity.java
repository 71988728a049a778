package android.app;

import android.content.Context;
import androidx.lifecycle.LifecycleOwner;
import java.io.File;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** The app in the foreground, with the one thread on which Android tells about changes. */
public class Activity extends Context implements LifecycleOwner {
	private static final ExecutorService MAIN_THREAD = Executors.newSingleThreadExecutor((runnable) -> {
		final Thread thread = new Thread(runnable, "main-thread");
		thread.setDaemon(true);
		return thread;
	});

	public Activity(File root, String packageName, boolean debuggable, String installer) {
		super(root, packageName, debuggable, installer);
	}

	public static void onMainThread(Runnable action) {
		MAIN_THREAD.execute(action);
	}

	public void runOnUiThread(Runnable action) {
		onMainThread(action);
	}
}
