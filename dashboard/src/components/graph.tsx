/** A graph that the API draws as SVG. */
import { Alert } from "@mantine/core";
import { useState } from "react";

export function Graph({ source, label }: { readonly source: string; readonly label: string }) {
	const [failed, setFailed] = useState<string | undefined>();
	if (failed === source) {
		return (
			<Alert color="gray" title="Could not load the graph">
				Your role cannot see these statistics, or the server did not answer.
			</Alert>
		);
	}
	return <img className="graph" src={source} alt={label} onError={() => setFailed(source)} />;
}

/** URL of a graph. */
export function graphSource(path: string, parameters: Readonly<Record<string, string>>): string {
	return `${path}?${new URLSearchParams(parameters)}`;
}
