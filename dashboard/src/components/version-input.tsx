/** Input for the version of a bundle: suggests the newest ones, and accepts any other. */
import { Autocomplete } from "@mantine/core";
import { usePage } from "../api";

export function VersionInput({
	appId,
	label,
	isRequired = true,
	error,
	value,
	onChange,
	opensOnFocus = true,
}: {
	readonly appId: string;
	readonly label: string;
	readonly isRequired?: boolean;
	readonly error?: string | undefined;
	readonly value: string;
	readonly onChange: (version: string) => void;
	/** False: the list would cover what the page shows, so it opens by typing. */
	readonly opensOnFocus?: boolean;
}) {
	const bundles = usePage("GET /bundle", { query: { app_id: appId } }, 0);
	return (
		<Autocomplete
			label={label}
			description="Choose one of the newest, or type any other version."
			required={isRequired}
			error={error}
			data={bundles.data?.items.map(({ name }) => name) ?? []}
			value={value}
			onChange={onChange}
			openOnFocus={opensOnFocus}
			limit={50}
			maxDropdownHeight={220}
			comboboxProps={{ keepMounted: false }}
		/>
	);
}
