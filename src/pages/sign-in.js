/**
 * The sign-in page. The token of a link is in the fragment and is sent in request bodies only, so that no server log contains it. Text from
 * the server and names chosen by people are shown as text, never as markup. The page redirects to paths of this service only.
 */
import { browserSupportsWebAuthn, startAuthentication } from "@simplewebauthn/browser";

/** The channel on which the dashboard's dialog learns that the person signed in again in another window. */
const CONFIRMED = "capstan-confirmed";
const FIRST_ACCOUNT = "admin@capstan.local";

const element = (id) => document.getElementById(id);
const show = (id, shown = true) => {
	element(id).hidden = !shown;
};
const showHeading = (title, message) => {
	element("title").textContent = title;
	element("message").textContent = message;
	show("problem", false);
};
const showProblem = (text) => {
	element("problem").textContent = text;
	show("problem");
};

async function send(method, path, body) {
	const response = await fetch(path, {
		method,
		...(body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
	}).catch(() => undefined);
	const answer = await response?.json().catch(() => undefined);
	if (response?.ok !== true) {
		const error = new Error(answer?.message ?? "The server did not answer. Check that it runs, then try again.");
		error.status = response?.status;
		error.code = answer?.error;
		throw error;
	}
	return answer;
}

/** Runs the action of a button or a form, and shows its error. */
const on = (id, type, work) =>
	element(id).addEventListener(type, async (event) => {
		event.preventDefault();
		const button = event.submitter ?? event.currentTarget;
		button.setAttribute("aria-busy", "true");
		show("problem", false);
		try {
			await work();
		} catch (error) {
			const isCancelled = error.name === "NotAllowedError";
			showProblem(isCancelled ? "No passkey was used. Try again, or sign in another way." : error.message);
		} finally {
			button.removeAttribute("aria-busy");
		}
	});

const query = new URLSearchParams(location.search);

/** The URL to open after sign-in; only paths of this service are accepted. */
function nextPath() {
	const next = query.get("next") ?? "";
	if (!/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(next)) return "/dashboard/";
	const url = new URL(next, location.origin);
	return url.origin === location.origin && !url.pathname.startsWith("//") ? url.href : "/dashboard/";
}

const enter = () => location.replace(nextPath());

/** The account of the session; undefined without a session. */
const currentAccount = () =>
	send("GET", "/account").catch((error) => {
		if (error.status === 401) return undefined;
		throw error;
	});

let methods = { code: false, code_delivery: null, passkey: false, providers: [] };

async function showMethods(title, message) {
	showHeading(title, message);
	methods = await send("GET", "/sign-in/methods");
	const hasPasskeys = methods.passkey && browserSupportsWebAuthn();
	show("code-form", false);
	show("ways");
	show("passkey", hasPasskeys);
	show("email-form", methods.code);
	show("or", hasPasskeys && (methods.code || methods.providers.length > 0));
	if (methods.code_delivery === "terminal") {
		element("email-hint").textContent = "The code appears in the terminal where npm start runs.";
		element("send-code").textContent = "Print a code in the terminal";
		// On a first local run no account has a passkey yet.
		element("send-code").classList.add("primary");
		element("passkey").classList.remove("primary");
		if (element("email").value === "") element("email").value = FIRST_ACCOUNT;
	}
	show("providers", methods.providers.length > 0);
	element("providers").replaceChildren(
		...methods.providers.map(({ id, name }) => {
			const link = document.createElement("a");
			const next = query.get("next");
			link.href = `/sign-in/provider/${id}${next === null ? "" : `?next=${encodeURIComponent(next)}`}`;
			link.textContent = `Continue with ${name}`;
			link.className = "button";
			return link;
		}),
	);
}

/** Texts for the error codes of the provider callback; other values are ignored. */
const REFUSALS = {
	no_account: "No account has the address from this provider. Ask an administrator for an invitation.",
	email_not_verified: "The provider has not verified your address. Verify it there, or sign in another way.",
	refused: "The provider did not sign you in. Try again, or sign in another way.",
	unavailable: "The provider did not answer. Try again in a moment.",
};

let attempt = "";

on("email-form", "submit", async () => {
	const email = element("email").value;
	({ attempt } = await send("POST", "/sign-in/code", { email }));
	show("ways", false);
	show("code-form");
	const isLocal = methods.code_delivery === "terminal";
	showHeading(
		"Enter the code",
		isLocal ? `for ${email}, if it has an account` : `If ${email} has an account, we sent it a code.`,
	);
	element("code-hint").textContent = isLocal
		? "We printed a six-digit code in the terminal where npm start runs, or in capstan.log of its state directory if it runs in the background."
		: "Six digits, valid for 10 minutes.";
	element("code").value = "";
	element("code").focus();
});
on("code-form", "submit", async () => {
	try {
		await send("POST", "/sign-in/code/verify", { attempt, code: element("code").value });
	} catch (error) {
		if (error.code === "sign_in_failed") error.message = "This code is wrong, has expired or was already used.";
		throw error;
	}
	enter();
});
on("other-way", "click", () => showMethods("Sign in", hostText()));
on("passkey", "click", async () => {
	const started = await send("POST", "/sign-in/passkey/options", {});
	const credential = await startAuthentication({ optionsJSON: started.options });
	await send("POST", "/sign-in/passkey", { attempt: started.attempt, credential });
	enter();
});

const hostText = () => `to Capstan on ${location.host}`;
const fragment = new URLSearchParams(location.hash.slice(1));
const token = fragment.get("token");
/** The address to sign in with, from the invitation page. */
const wanted = fragment.get("as");

async function signInWithLink() {
	history.replaceState(null, "", location.pathname + location.search);
	try {
		await send("POST", "/sign-in/link", { token });
	} catch (error) {
		// A browser that restores its tabs opens a used link again; the session of its first use is enough.
		if (error.code !== "sign_in_failed" || (await currentAccount()) === undefined) {
			await showMethods("Sign in", hostText());
			const isUsed = error.code === "sign_in_failed";
			return showProblem(
				isUsed ? "This link has expired or was already used. Sign in below, or get a new link." : error.message,
			);
		}
	}
	enter();
}

async function start() {
	if (token !== null) return signInWithLink();
	const account = await currentAccount();
	if (query.has("confirmed") && account !== undefined) {
		new BroadcastChannel(CONFIRMED).postMessage(account.email);
		showHeading("Confirmed", "You can close this window.");
		return close();
	}
	const refusal = REFUSALS[query.get("error") ?? ""];
	const again = query.has("again") && account !== undefined;
	const isAnother = wanted !== null && account?.email !== wanted;
	if (account !== undefined && !again && !isAnother && refusal === undefined) return enter();
	if (again) {
		await showMethods("Confirm it's you", `to continue as ${account.email}`);
		element("email").value = account.email;
		show("foot", false);
	} else if (isAnother) {
		await showMethods("Sign in", `as ${wanted}, to join`);
		element("email").value = wanted;
		show("foot", false);
	} else await showMethods("Sign in", hostText());
	if (refusal !== undefined) showProblem(refusal);
}

const isLoopback = /^(localhost|127\.0\.0\.1|\[::1\])$/.test(location.hostname);
if (location.protocol === "http:" && !isLoopback) {
	showHeading("This device reaches Capstan", `at ${location.origin}`);
	element("server").textContent = location.origin;
	show("elsewhere");
	show("foot", false);
} else if (isLoopback && location.hostname !== "localhost") {
	// All pages use one host, because sessions and passkeys belong to it.
	const url = new URL(location.href);
	url.hostname = "localhost";
	location.replace(url.href);
} else {
	// A prerendered page must not use the single-use link.
	if (document.prerendering) {
		await new Promise((resolve) => document.addEventListener("prerenderingchange", resolve, { once: true }));
	}
	try {
		await start();
	} catch (error) {
		await showMethods("Sign in", hostText()).catch(() => undefined);
		showProblem(error.message);
	}
}
