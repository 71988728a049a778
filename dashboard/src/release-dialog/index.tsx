/**
 * The door to the release dialog, which loads when it opens: the first screen's script has a limit.
 * A page passes what it is about; everything else is proposed.
 */
import { lazy, Suspense } from "react";
import type { ReleaseDialogProps } from "./release-dialog";

const Dialog = lazy(() => import("./release-dialog"));

export function ReleaseDialog(props: ReleaseDialogProps) {
	return (
		<Suspense>
			<Dialog {...props} />
		</Suspense>
	);
}
