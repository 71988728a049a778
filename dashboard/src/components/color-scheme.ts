/**
 * The chosen theme. Without `keepTransitions` the library would insert a style element, which the
 * page's Content-Security-Policy refuses.
 */
import { useMantineColorScheme } from "@mantine/core";

export const useColorScheme = () => useMantineColorScheme({ keepTransitions: true });
