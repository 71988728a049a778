package androidx.work;

public class Configuration {
	public static class Builder {
		public Builder setMinimumLoggingLevel(int level) {
			return this;
		}

		public Configuration build() {
			return new Configuration();
		}
	}
}
