/**
 * Entry of the dashboard: theme, query cache and router. The component library must not insert
 * style elements, because the page's Content-Security-Policy refuses them.
 */
import "./library-parts.css";
import "@mantine/notifications/styles.css";
import "./theme.css";
import "./library.css";
import "./components/parts.css";
import "./components/content.css";
import "./shell/shell.css";
import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { type ReactNode, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import { queryClient } from "./api";
import { App } from "./app";
import { useIsOnline } from "./components/online";
import { useIsPhone } from "./components/phone";
import { guardLeaving, guardNavigation } from "./components/unsaved";
import { themeOf } from "./library";

/** Long enough for slow readers. Important messages stay on the page instead. */
const SHOWN_MS = 8_000;

/** Local runs use one host name, because sessions and passkeys belong to it. */
function leaveForCanonicalHost(): boolean {
	if (!/^(127\.0\.0\.1|\[::1\])$/.test(location.hostname)) return false;
	const url = new URL(location.href);
	url.hostname = "localhost";
	location.replace(url.href);
	return true;
}

function Themed({ children }: { readonly children: ReactNode }) {
	const theme = themeOf(useIsOnline());
	return (
		<MantineProvider theme={theme} defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
			{children}
		</MantineProvider>
	);
}

/** On phones above the content, because buttons are below it. */
function Messages() {
	return <Notifications position={useIsPhone() ? "top-center" : "bottom-right"} autoClose={SHOWN_MS} />;
}

const root = document.getElementById("root");
if (root !== null && !leaveForCanonicalHost()) {
	guardLeaving();
	createRoot(root).render(
		<StrictMode>
			<Themed>
				<QueryClientProvider client={queryClient}>
					<Messages />
					<Router base="/dashboard" aroundNav={guardNavigation}>
						<App />
					</Router>
				</QueryClientProvider>
			</Themed>
		</StrictMode>,
	);
}
