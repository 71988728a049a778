/** The channels of an app as choices of a filter, so that nobody has to type a whole name. */
import { useAllPages } from "../../api";

export function useChannelFilter(appId: string) {
	const channels = useAllPages("GET /channel", { query: { app_id: appId, limit: "1000" } });
	const names = (channels.data ?? []).map(({ name }) => ({ value: name, label: name }));
	return { name: "channel", label: "Channel", choices: [{ value: "", label: "All channels" }, ...names] } as const;
}
