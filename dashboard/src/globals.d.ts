/**
 * Globals that the compiler cannot find by itself: the build fills in `__CLI_VERSION__`
 * (vite.config.ts), and the Worker's runtime has the others. The types of endpoints come from the
 * Worker's sources, so the compiler reads those too; none of them runs here.
 */
declare const __CLI_VERSION__: string;

interface SubtleCrypto {
	timingSafeEqual(left: ArrayBuffer | ArrayBufferView, right: ArrayBuffer | ArrayBufferView): boolean;
}
interface Crypto {
	readonly DigestStream: new (
		algorithm: string,
	) => WritableStream<ArrayBuffer | ArrayBufferView> & { readonly digest: Promise<ArrayBuffer> };
}

declare module "@tabler/icons-react/dist/esm/icons/*" {
	const drawing: import("react").ComponentType<import("react").SVGProps<SVGSVGElement>>;
	export default drawing;
}

/** Plain JavaScript, because the pages of the Worker are. */
declare module "*/pages/qr-code.js" {
	export function drawCode(canvas: HTMLCanvasElement, text: string): void;
}
