/** Asks before unsaved changes are lost. Mounted only while somebody leaves. */
import { Discard } from "./dialog";
import { leaveAnyway, stay } from "./unsaved";

export default function LeaveQuestion() {
	return <Discard text="What you changed on this page is not saved." onKeep={stay} onDiscard={leaveAnyway} />;
}
