package androidx.lifecycle;

import android.app.Activity;
import java.util.ArrayList;
import java.util.List;

/** A value with observers, told of it on the main thread, at once and at each change. */
public class LiveData<T> {
	private final List<Observer<T>> observers = new ArrayList<>();
	private T value;

	public synchronized void observe(LifecycleOwner owner, Observer<T> observer) {
		observers.add(observer);
		final T now = value;
		if (now != null) Activity.onMainThread(() -> observer.onChanged(now));
	}

	public synchronized void post(T next) {
		value = next;
		for (final Observer<T> observer : observers) Activity.onMainThread(() -> observer.onChanged(next));
	}
}
