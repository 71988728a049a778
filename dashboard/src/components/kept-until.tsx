/** How long a bundle is kept, and what its deletion means for devices that run it. */
import { countOf } from "./size";
import { Day } from "./time";

/** When automatic clean-up may delete the bundle; null: never. */
export function KeptUntil({ expiresAt }: { readonly expiresAt: string | null }) {
	if (expiresAt === null) return "No limit";
	if (new Date(expiresAt).getTime() <= Date.now()) return "Next clean-up";
	return <Day value={expiresAt} />;
}

export function runningText(devices: number): string {
	if (devices === 0) return "No known device runs a bundle that will be deleted.";
	return `${countOf(devices, "device")} ${devices === 1 ? "runs" : "run"} a bundle that will be deleted, and ${devices === 1 ? "keeps" : "keep"} it until a channel offers another one.`;
}

export function runsItText(devices: number): string {
	if (devices === 0) return "no known device runs it";
	return `${countOf(devices, "device")} ${devices === 1 ? "runs" : "run"} it`;
}
