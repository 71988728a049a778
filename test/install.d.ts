/** Types of install.js, which is plain JavaScript so that every Node runs it. */
export function missingPackages(
	manifest: { readonly devDependencies?: Readonly<Record<string, string>> },
	installed: { readonly packages?: Readonly<Record<string, { readonly version?: string }>> },
): string[];

export function installTestPackages(): void;
