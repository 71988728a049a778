/**
 * What the Worker's runtime has and browsers have not. The dashboard takes the types of endpoints from the Worker's sources, so the compiler
 * reads those as well; nothing of them runs here.
 */
interface SubtleCrypto {
	timingSafeEqual(left: ArrayBuffer | ArrayBufferView, right: ArrayBuffer | ArrayBufferView): boolean;
}
interface Crypto {
	readonly DigestStream: new (
		algorithm: string,
	) => WritableStream<ArrayBuffer | ArrayBufferView> & { readonly digest: Promise<ArrayBuffer> };
}
