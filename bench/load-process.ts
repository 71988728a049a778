/** The load generator as a separate process (child.ts). */
import { serve } from "./child";
import { runLoad } from "./load";

serve(runLoad);
