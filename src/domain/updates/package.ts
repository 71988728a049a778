/**
 * The form in which a device is offered a bundle: the zip, the single files of the manifest (a
 * delta update), or both. A channel's setting chooses. If bundle or client lack the chosen form,
 * the other one is offered, because an update in another form is better than none.
 */

export const UPDATE_PACKAGES = ["all", "zip", "delta", "zip_from_builtin", "delta_from_builtin"] as const;
export type UpdatePackage = (typeof UPDATE_PACKAGES)[number];

export type PackageForm = "all" | "zip" | "delta";

export interface Forms {
	readonly hasZip: boolean;
	/** There is a manifest, and the device can read it. */
	readonly hasManifest: boolean;
}

/**
 * The form that a mode chooses. The `_from_builtin` modes apply while the device runs its store
 * build.
 */
export function wantedForm(mode: UpdatePackage, runsStoreBuild: boolean): PackageForm {
	if (mode === "zip_from_builtin") return runsStoreBuild ? "zip" : "all";
	if (mode === "delta_from_builtin") return runsStoreBuild ? "delta" : "all";
	return mode;
}

/** The wanted form if it exists, else the other one. */
export function offeredForm(wanted: PackageForm, { hasZip, hasManifest }: Forms): PackageForm {
	if (hasZip && hasManifest) return wanted;
	return hasManifest ? "delta" : "zip";
}

/** The form that every bundle of a channel in this mode must have; undefined: any. */
export function requiredForm(mode: UpdatePackage): "zip" | "delta" | undefined {
	const wanted = wantedForm(mode, true);
	return wanted === "all" ? undefined : wanted;
}
