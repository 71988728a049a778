/**
 * The page that people sign in at. The token of a link stands after # and is sent in bodies only, so that no server's log has it. Text
 * from the server and names that people chose are shown as text, never as markup. The page leads to paths of this service only.
 */
import { browserSupportsWebAuthn, startAuthentication } from "@simplewebauthn/browser";

/** The dashboard's dialog listens here: the reader has confirmed who they are in a window of its own. */
const CONFIRMED = "capstan-confirmed";
const FIRST_ACCOUNT = "admin@capstan.local";

const element = (id) => document.getElementById(id);
const show = (id, shown = true) => {
	element(id).hidden = !shown;
};
const say = (title, message) => {
	element("title").textContent = title;
	element("message").textContent = message;
	show("problem", false);
};
const complain = (text) => {
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

/** Runs what a button or a form asks for, and shows what went wrong. */
const on = (id, event, work) =>
	element(id).addEventListener(event, async (happened) => {
		happened.preventDefault();
		const button = happened.submitter ?? happened.currentTarget;
		button.setAttribute("aria-busy", "true");
		show("problem", false);
		try {
			await work();
		} catch (error) {
			const isCancelled = error.name === "NotAllowedError";
			complain(isCancelled ? "The passkey was not used. Try again, or sign in another way." : error.message);
		} finally {
			button.removeAttribute("aria-busy");
		}
	});

const query = new URLSearchParams(location.search);

/** The path to go to after signing in; only one of this service. */
function nextPath() {
	const next = query.get("next") ?? "";
	if (!/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(next)) return "/dashboard/";
	const url = new URL(next, location.origin);
	return url.origin === location.origin && !url.pathname.startsWith("//") ? url.href : "/dashboard/";
}

const enter = () => location.replace(nextPath());

/** Undefined when nobody is signed in. */
const currentAccount = () =>
	send("GET", "/account").catch((error) => {
		if (error.status === 401) return undefined;
		throw error;
	});

let methods = { code: false, code_delivery: null, passkey: false, providers: [] };

async function showWays(title, message) {
	say(title, message);
	methods = await send("GET", "/sign-in/methods");
	const hasPasskeys = methods.passkey && browserSupportsWebAuthn();
	show("code-form", false);
	show("ways");
	show("passkey", hasPasskeys);
	show("email-form", methods.code);
	show("or", hasPasskeys && (methods.code || methods.providers.length > 0));
	if (methods.code_delivery === "terminal") {
		element("email-hint").textContent = "The code is printed in the terminal where npm start runs.";
		element("send-code").textContent = "Print a code in the terminal";
		// On the first day nobody has a passkey yet.
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

/** Reasons for which a provider's answer was refused; other values are ignored. */
const REFUSALS = {
	no_account: "Nobody here has the address that the provider names. Ask an administrator for an invitation.",
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
	say(
		"Enter the code",
		isLocal ? `For ${email}, if it has an account here.` : `If ${email} has an account, a code is on its way.`,
	);
	element("code-hint").textContent = isLocal
		? "We printed six digits in the terminal where npm start runs. In the background, they are in .capstan/capstan.log."
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
on("other-way", "click", () => showWays("Sign in", hostText()));
on("passkey", "click", async () => {
	const begun = await send("POST", "/sign-in/passkey/options", {});
	const credential = await startAuthentication({ optionsJSON: begun.options });
	await send("POST", "/sign-in/passkey", { attempt: begun.attempt, credential });
	enter();
});

const hostText = () => `to Capstan on ${location.host}`;
const fragment = new URLSearchParams(location.hash.slice(1));
const token = fragment.get("token");
/** The address to sign in as, from the page of an invitation. */
const wanted = fragment.get("as");

async function signInWithLink() {
	history.replaceState(null, "", location.pathname + location.search);
	try {
		await send("POST", "/sign-in/link", { token });
	} catch (error) {
		// Opened twice, as a browser does that restores its tabs.
		if (error.code !== "sign_in_failed" || (await currentAccount()) === undefined) {
			await showWays("Sign in", hostText());
			const isUsed = error.code === "sign_in_failed";
			return complain(
				isUsed ? "This link has expired or was already used. Sign in below, or get a new link." : error.message,
			);
		}
	}
	enter();
}

async function begin() {
	if (token !== null) return signInWithLink();
	const account = await currentAccount();
	if (query.has("confirmed") && account !== undefined) {
		new BroadcastChannel(CONFIRMED).postMessage(account.email);
		say("Confirmed", "You can close this window.");
		return close();
	}
	const refusal = REFUSALS[query.get("error") ?? ""];
	const again = query.has("again") && account !== undefined;
	const isAnother = wanted !== null && account?.email !== wanted;
	if (account !== undefined && !again && !isAnother && refusal === undefined) return enter();
	if (again) {
		await showWays("Confirm it's you", `to continue as ${account.email}`);
		element("email").value = account.email;
		show("foot", false);
	} else if (isAnother) {
		await showWays("Sign in", `as ${wanted}, to join`);
		element("email").value = wanted;
		show("foot", false);
	} else await showWays("Sign in", hostText());
	if (refusal !== undefined) complain(refusal);
}

const isLoopback = /^(localhost|127\.0\.0\.1|\[::1\])$/.test(location.hostname);
if (location.protocol === "http:" && !isLoopback) {
	say("This device reaches Capstan", `at ${location.origin}`);
	element("server").textContent = location.origin;
	show("elsewhere");
	show("foot", false);
} else if (isLoopback && location.hostname !== "localhost") {
	// One host for all pages: sessions and passkeys belong to it.
	const url = new URL(location.href);
	url.hostname = "localhost";
	location.replace(url.href);
} else {
	// A page that is only prepared in the background must not use up the link.
	if (document.prerendering) {
		await new Promise((resolve) => document.addEventListener("prerenderingchange", resolve, { once: true }));
	}
	try {
		await begin();
	} catch (error) {
		await showWays("Sign in", hostText()).catch(() => undefined);
		complain(error.message);
	}
}
