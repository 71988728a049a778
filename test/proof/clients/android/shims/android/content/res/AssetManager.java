package android.content.res;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;

/** Files that came with the store build. */
public class AssetManager {
	private final File directory;

	public AssetManager(File directory) {
		this.directory = directory;
	}

	public InputStream open(String path) throws IOException {
		return new FileInputStream(new File(directory, path));
	}
}
