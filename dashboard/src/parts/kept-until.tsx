/** How long a bundle stays, and what its deletion means to devices that run it. */
import { countOf } from "./size";
import { Day } from "./time";

/** When automatic clean-up may delete the bundle; null: it stays. */
export function KeptUntil({ expiresAt }: { readonly expiresAt: string | null }) {
	if (expiresAt === null) return "Stays";
	if (new Date(expiresAt).getTime() <= Date.now()) return "Next clean-up";
	return <Day value={expiresAt} />;
}

export function runningText(devices: number): string {
	if (devices === 0) return "No known device runs what is deleted.";
	return `${countOf(devices, "device")} ${devices === 1 ? "runs" : "run"} what is deleted, and ${devices === 1 ? "keeps" : "keep"} it until a channel gives something else.`;
}

export function runsItText(devices: number): string {
	if (devices === 0) return "no known device runs it";
	return `${countOf(devices, "device")} ${devices === 1 ? "runs" : "run"} it`;
}
