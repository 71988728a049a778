/** Platforms of devices, as choices of a filter and as names. */
export const PLATFORMS = [
	{ value: "", label: "All platforms" },
	{ value: "ios", label: "iOS" },
	{ value: "android", label: "Android" },
	{ value: "electron", label: "Electron" },
];

export const platformName = (platform: string | null) =>
	PLATFORMS.find(({ value }) => value !== "" && value === platform)?.label ?? platform ?? "Not reported yet";
