/**
 * The page that people sign in at. The token of a link stands after # and is sent in bodies alone, so that no server's log has it. What
 * the server says and what people named is shown as text, never as markup; where to go afterwards is a path of this service alone.
 */
import { browserSupportsWebAuthn, startAuthentication, startRegistration } from "@simplewebauthn/browser";

const element = (id) => document.getElementById(id);
const say = (text) => {
	element("message").textContent = text;
};
const show = (id, shown = true) => {
	element(id).hidden = !shown;
};

async function send(method, path, body) {
	const response = await fetch(path, {
		method,
		...(body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
	}).catch(() => undefined);
	const answer = await response?.json().catch(() => undefined);
	if (response?.ok !== true) {
		const error = new Error(answer?.message ?? "The server did not answer; try again in a moment.");
		error.status = response?.status;
		error.code = answer?.error;
		throw error;
	}
	return answer;
}

/** Says what went wrong, and offers to sign in again where that is the remedy. */
async function tell(error) {
	if (error.code === "recent_sign_in_required") return showWays("Sign in again to do this, and repeat it.");
	say(
		error.name === "NotAllowedError" ? "The passkey was not used; try again, or sign in another way." : error.message,
	);
}

/** Runs what a button or a form asks for; says what went wrong. */
const on = (id, event, work) =>
	element(id).addEventListener(event, async (happened) => {
		happened.preventDefault();
		try {
			await work();
		} catch (error) {
			await tell(error);
		}
	});

const query = new URLSearchParams(location.search);

/** The path to go to after signing in; only one of this service. */
function nextPath() {
	const next = query.get("next") ?? "";
	if (!/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(next)) return undefined;
	const url = new URL(next, location.origin);
	return url.origin === location.origin && !url.pathname.startsWith("//") ? url.href : undefined;
}

async function enter() {
	const next = nextPath();
	if (next === undefined) await showAccount(await send("GET", "/account"));
	else location.replace(next);
}

async function showAccount(account) {
	say(`You are signed in as ${account.email}.`);
	show("ways", false);
	show("account");
	show("passkey-form", browserSupportsWebAuthn());
	await listPasskeys();
}

/** Asks about the passkey by its name, and says how its owner signs in without it. The last way in stays. */
async function mayRemove(name, isLast) {
	const question = `Remove the passkey ${name}?`;
	if (!isLast) return confirm(`${question} You can sign in with your other passkeys.`);
	const [{ code }, providers] = await Promise.all([send("GET", "/sign-in/methods"), send("GET", "/account/providers")]);
	const linked = providers.filter(({ offered }) => offered).map((provider) => provider.name);
	const others = [...(code ? ["a code by e-mail"] : []), ...linked];
	if (others.length > 0)
		return confirm(`${question} It is your last one. Without it you sign in with ${others.join(" or ")}.`);
	say(`${name} is the last way into your account, so it stays until you have added another one.`);
	return false;
}

async function listPasskeys() {
	const passkeys = await send("GET", "/account/passkeys");
	element("passkeys").replaceChildren(
		...passkeys.map(({ id, name, created_at }) => {
			const item = document.createElement("li");
			const remove = document.createElement("button");
			item.textContent = `${name}, since ${new Date(created_at).toLocaleDateString()}`;
			remove.textContent = `Remove ${name}`;
			remove.type = "button";
			remove.addEventListener("click", async () => {
				try {
					if (!(await mayRemove(name, passkeys.length === 1))) return;
					await send("DELETE", `/account/passkeys/${id}`);
					await listPasskeys();
				} catch (error) {
					await tell(error);
				}
			});
			item.append(remove);
			return item;
		}),
	);
}

async function showWays(message) {
	say(message);
	const { code, passkey, providers } = await send("GET", "/sign-in/methods");
	show("account", false);
	show("ways");
	show("passkey", passkey && browserSupportsWebAuthn());
	show("email-form", code);
	element("providers").replaceChildren(
		...providers.map(({ id, name }) => {
			const link = document.createElement("a");
			const next = query.get("next");
			link.href = `/sign-in/provider/${id}${next === null ? "" : `?next=${encodeURIComponent(next)}`}`;
			link.textContent = `Sign in with ${name}`;
			return link;
		}),
	);
}

/** What a provider's answer was refused for; other values say nothing. */
const REFUSALS = {
	no_account: "Nobody here has the address that the provider names; ask an administrator for an invitation.",
	email_not_verified:
		"The provider does not say that your address is verified; verify it there, or sign in another way.",
	refused: "The provider did not sign you in; try again, or sign in another way.",
	unavailable: "The provider did not answer; try again in a moment.",
};

let attempt = "";

on("email-form", "submit", async () => {
	const email = element("email").value;
	({ attempt } = await send("POST", "/sign-in/code", { email }));
	show("code-form");
	element("code").focus();
	say(`If ${email} has an account, a code is on its way. It is good for ten minutes.`);
});
on("code-form", "submit", async () => {
	await send("POST", "/sign-in/code/verify", { attempt, code: element("code").value });
	await enter();
});
on("passkey", "click", async () => {
	const begun = await send("POST", "/sign-in/passkey/options", {});
	const credential = await startAuthentication({ optionsJSON: begun.options });
	await send("POST", "/sign-in/passkey", { attempt: begun.attempt, credential });
	await enter();
});
on("passkey-form", "submit", async () => {
	const begun = await send("POST", "/account/passkey-options", {});
	const credential = await startRegistration({ optionsJSON: begun.options });
	await send("POST", "/account/passkeys", { attempt: begun.attempt, name: element("passkey-name").value, credential });
	await listPasskeys();
	say("The passkey is added; you can sign in with it from now on.");
});
on("sign-out", "click", async () => {
	await send("POST", "/sign-out");
	await showWays("You are signed out.");
});

const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token !== null) history.replaceState(null, "", location.pathname + location.search);
try {
	if (token !== null) {
		await send("POST", "/sign-in/link", { token });
		await enter();
	} else {
		const refusal = REFUSALS[query.get("error") ?? ""];
		const account = await send("GET", "/account").catch((error) => {
			if (error.status === 401) return undefined;
			throw error;
		});
		const again = query.has("again") && account !== undefined;
		if (again) await showWays(refusal ?? "Sign in again to go on: it has been a while.");
		else if (refusal !== undefined || account === undefined) await showWays(refusal ?? "Choose how.");
		else await showAccount(account);
	}
} catch (error) {
	await showWays(error.message).catch(() => undefined);
}
