/**
 * The heap of a Worker after a forced collection, from the inspector of its runtime (option
 * `inspectorPort`). The process holds more: V8 collects late where no limit forces it to, and D1
 * runs beside the Worker.
 */
import { fetch, type Miniflare } from "miniflare";

const MEGABYTE = 1024 * 1024;

interface HeapUsage {
	readonly usedSize: number;
	/** Objects of the runtime that the heap refers to, and memory of buffers. */
	readonly embedderHeapUsedSize: number;
	readonly backingStorageSize: number;
}

/** @param name of the Worker */
export async function heapMegabytes(miniflare: Miniflare, name: string): Promise<number> {
	const { host } = await miniflare.getInspectorURL();
	const { webSocket } = await fetch(`http://${host}/core:user:${name}`, { headers: { upgrade: "websocket" } });
	if (webSocket === null) throw new Error("the inspector accepted no connection");
	webSocket.accept();
	const answers = new Map<number, (result: unknown) => void>();
	webSocket.addEventListener("message", ({ data }) => {
		const { id, result } = JSON.parse(String(data)) as { readonly id: number; readonly result: unknown };
		answers.get(id)?.(result);
	});
	let last = 0;
	const call = (method: string) =>
		new Promise<unknown>((resolve) => {
			last += 1;
			answers.set(last, resolve);
			webSocket.send(JSON.stringify({ id: last, method }));
		});
	try {
		await call("HeapProfiler.enable");
		await call("HeapProfiler.collectGarbage");
		const usage = (await call("Runtime.getHeapUsage")) as HeapUsage;
		return Math.round((usage.usedSize + usage.embedderHeapUsedSize + usage.backingStorageSize) / MEGABYTE);
	} finally {
		webSocket.close();
	}
}
