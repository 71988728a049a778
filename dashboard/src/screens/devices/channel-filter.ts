/** The channels of an app as choices of a filter, so that nobody has to type a whole name. */
import { useAllPages } from "../../api";

export function useChannelFilter(appId: string) {
	const loaded = useAllPages("GET /channel", { query: { app_id: appId, limit: "1000" } });
	const channels = loaded.data ?? [];
	const names = channels.map(({ name }) => ({ value: name, label: name }));
	const filter = {
		name: "channel",
		label: "Channel",
		choices: [{ value: "", label: "All channels" }, ...names],
	} as const;
	return { channels, filter };
}
