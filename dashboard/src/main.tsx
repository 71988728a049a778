/**
 * Where the dashboard starts: the theme, the memory of what the API answered, and the router. The component library writes no style of its
 * own into the page; the page's Content-Security-Policy would refuse it.
 */
import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "./theme.css";
import { createTheme, MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import { queryClient } from "./api";
import { App } from "./app";

const theme = createTheme({
	components: {
		// Locking the scroll would write a style element; theme.css does it.
		Modal: { defaultProps: { lockScroll: false, closeButtonProps: { "aria-label": "Close" } } },
		Drawer: { defaultProps: { lockScroll: false, closeButtonProps: { "aria-label": "Close" } } },
	},
});

/** Long enough to be read by everybody; what must not be missed stands on the page. */
const SHOWN_MS = 8_000;

/** A local run's pages live at one host, because sessions and passkeys belong to it. */
function leaveForCanonicalHost(): boolean {
	if (!/^(127\.0\.0\.1|\[::1\])$/.test(location.hostname)) return false;
	const url = new URL(location.href);
	url.hostname = "localhost";
	location.replace(url.href);
	return true;
}

const root = document.getElementById("root");
if (root !== null && !leaveForCanonicalHost()) {
	createRoot(root).render(
		<StrictMode>
			<MantineProvider theme={theme} defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
				<QueryClientProvider client={queryClient}>
					<Notifications position="bottom-right" autoClose={SHOWN_MS} />
					<Router base="/dashboard">
						<App />
					</Router>
				</QueryClientProvider>
			</MantineProvider>
		</StrictMode>,
	);
}
