/** What is awaited in a dialog, where that takes longer than a moment. Nothing is said before it begins, and where there is nothing to say. */
import { Text } from "@mantine/core";

export function Waiting({ isPending, text }: { readonly isPending: boolean; readonly text: string | undefined }) {
	return isPending && text !== undefined ? (
		<Text size="sm" role="status">
			{text}
		</Text>
	) : null;
}
