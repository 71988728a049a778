/**
 * Which form of a bundle a device is offered: its zip, the single files of its manifest (a delta update), or both. A channel's setting
 * chooses; a bundle or a client that lacks the chosen form gets the other one, because an update in the wrong form beats none.
 */

export const UPDATE_PACKAGES = ["all", "zip", "delta", "zip_from_builtin", "delta_from_builtin"] as const;
export type UpdatePackage = (typeof UPDATE_PACKAGES)[number];

export type PackageForm = "all" | "zip" | "delta";

export interface Forms {
	readonly hasZip: boolean;
	/** Whether there is a manifest that the asking device can read. */
	readonly hasManifest: boolean;
}

/** The form that a mode asks for. The `_from_builtin` modes hold while the device runs its store build. */
export function wantedForm(mode: UpdatePackage, runsStoreBuild: boolean): PackageForm {
	if (mode === "zip_from_builtin") return runsStoreBuild ? "zip" : "all";
	if (mode === "delta_from_builtin") return runsStoreBuild ? "delta" : "all";
	return mode;
}

/** The form that is offered, of what there is. */
export function offeredForm(wanted: PackageForm, { hasZip, hasManifest }: Forms): PackageForm {
	if (hasZip && hasManifest) return wanted;
	return hasManifest ? "delta" : "zip";
}

/** The form that every bundle of a channel in this mode must have; undefined: either. */
export function requiredForm(mode: UpdatePackage): "zip" | "delta" | undefined {
	const wanted = wantedForm(mode, true);
	return wanted === "all" ? undefined : wanted;
}
