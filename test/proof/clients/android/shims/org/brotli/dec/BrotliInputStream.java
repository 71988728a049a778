package org.brotli.dec;

import java.io.ByteArrayInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.CompletableFuture;

/** Brotli through Node, named by the property `node`: this JDK has no decoder, and the decoder is not what is under test. */
public class BrotliInputStream extends FilterInputStream {
	private static final String SCRIPT =
		"process.stdout.write(require('node:zlib').brotliDecompressSync(require('node:fs').readFileSync(0)))";

	public BrotliInputStream(InputStream compressed) throws IOException {
		super(new ByteArrayInputStream(decompress(compressed.readAllBytes())));
	}

	private static byte[] decompress(byte[] compressed) throws IOException {
		final Process node = new ProcessBuilder(System.getProperty("node"), "-e", SCRIPT)
			.redirectError(ProcessBuilder.Redirect.DISCARD)
			.start();
		CompletableFuture.runAsync(() -> {
			try (var input = node.getOutputStream()) {
				input.write(compressed);
			} catch (IOException closedEarly) {
				// Its exit status tells.
			}
		});
		final byte[] bytes = node.getInputStream().readAllBytes();
		try {
			if (node.waitFor() != 0) throw new IOException("Brotli stream decoding failed");
		} catch (InterruptedException interrupted) {
			Thread.currentThread().interrupt();
			throw new IOException(interrupted);
		}
		return bytes;
	}
}
