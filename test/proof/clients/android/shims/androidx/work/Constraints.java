package androidx.work;

/** There is always a network here, so no constraint ever holds work back. */
public class Constraints {
	public static class Builder {
		public Builder setRequiredNetworkType(NetworkType type) {
			return this;
		}

		public Constraints build() {
			return new Constraints();
		}
	}
}
