/** A graph of the API, as the API draws it. */
import { Alert } from "@mantine/core";
import { useState } from "react";

export function Graph({ source, label }: { readonly source: string; readonly label: string }) {
	const [failed, setFailed] = useState<string | undefined>();
	if (failed === source) {
		return (
			<Alert color="gray" title="The graph could not be loaded">
				You may not see these statistics, or the server did not answer.
			</Alert>
		);
	}
	return <img className="graph" src={source} alt={label} onError={() => setFailed(source)} />;
}

/** The address of a graph of the API. */
export function graphSource(path: string, parameters: Readonly<Record<string, string>>): string {
	return `${path}?${new URLSearchParams(parameters)}`;
}
