/** Choices of an app and of one of its channels, for roles below the organization. */
import { NativeSelect } from "@mantine/core";
import { useAllPages } from "../api";
import type { AppRecord } from "../organizations";

interface Choice {
	readonly label: string;
	readonly value: string;
	readonly error?: string | undefined;
	readonly onChange: (value: string) => void;
}

export const appText = ({ name, app_id }: Pick<AppRecord, "name" | "app_id">) => `${name} (${app_id})`;

export function AppSelect({ apps, label, value, error, onChange }: Choice & { readonly apps: readonly AppRecord[] }) {
	return (
		<NativeSelect
			label={label}
			required
			error={error}
			value={value}
			onChange={(event) => onChange(event.currentTarget.value)}
			data={[{ value: "", label: "Choose an app" }, ...apps.map((app) => ({ value: app.app_id, label: appText(app) }))]}
		/>
	);
}

/** The empty value means the whole app. */
export function ChannelSelect({
	appId,
	by,
	label,
	value,
	error,
	onChange,
}: Choice & {
	/** Without an app there is no channel to choose. */
	readonly appId: string | undefined;
	/** The value: names are used again after a deletion, ids are not. */
	readonly by: "id" | "name";
}) {
	const isOn = appId !== undefined && appId !== "";
	const channels = useAllPages("GET /channel", { query: { app_id: appId ?? "", limit: "1000" } }, { enabled: isOn });
	return (
		<NativeSelect
			label={label}
			error={error}
			disabled={!isOn}
			value={value}
			onChange={(event) => onChange(event.currentTarget.value)}
			data={[
				{ value: "", label: "Whole app" },
				...(channels.data ?? []).map(({ id, name }) => ({ value: by === "id" ? String(id) : name, label: name })),
			]}
		/>
	);
}
