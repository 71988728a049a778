/** Calls that took effect and whose answer was lost, in every flow (support/crashes.ts). */
import { describeCrashes } from "./support/crashes";

describeCrashes("answer lost");
