package androidx.work;

import java.util.function.Consumer;

public class WorkerParameters {
	final Data input;
	final Consumer<Data> onProgress;

	WorkerParameters(Data input, Consumer<Data> onProgress) {
		this.input = input;
		this.onProgress = onProgress;
	}
}
