/**
 * The page that the link of an invitation opens. The token stands after # and is sent in bodies alone, so that no server's log has it.
 * What the server says is shown as text, never as markup.
 */
import { ROLE_TEXTS } from "../authz/role-texts";

const element = (id) => document.getElementById(id);
const say = (text) => {
	element("message").textContent = text;
};

async function post(path, body) {
	const response = await fetch(path, {
		method: "POST",
		headers: { "content-type": "application/json" },
		body: JSON.stringify(body),
	}).catch(() => undefined);
	const answer = await response?.json().catch(() => undefined);
	if (response?.ok !== true) {
		const error = new Error(answer?.message ?? "The server did not answer; try again in a moment.");
		error.code = answer?.error;
		throw error;
	}
	return answer;
}

const roleText = (name) => ROLE_TEXTS[name] ?? name;
const date = (text) => new Date(text).toLocaleString();
const given = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
/** Keeps the token in this tab while the reader signs in: an address would take it to servers and logs. */
const KEPT = "capstan-invitation";
const token = given === "" ? (globalThis.sessionStorage?.getItem(KEPT) ?? "") : given;
let email = "";

/** The address has an account, which joins from its own session only. */
function askToSignIn() {
	globalThis.sessionStorage?.setItem(KEPT, token);
	element("sign-in-link").href = `/sign-in?next=/invitation#as=${encodeURIComponent(email)}`;
	element("sign-in").hidden = false;
	say(`${email} has an account here. Sign in to it, then join.`);
}

async function join(event) {
	event.preventDefault();
	element("form").hidden = true;
	try {
		const joined = await post("/invitation/accept", { token, name: element("name").value, sign_in: true });
		globalThis.sessionStorage?.removeItem(KEPT);
		element("key").value = joined.api_key.key;
		element("result").hidden = false;
		say(
			`${joined.email} is a member now, with the role ${roleText(joined.role)}. The key runs out on ${date(joined.api_key.expires_at)}.${joined.signed_in && given !== "" ? " You are signed in; add a passkey to come back with." : ""}`,
		);
	} catch (error) {
		if (error.code === "sign_in_required") return askToSignIn();
		element("form").hidden = false;
		say(error.message);
	}
}

// One host for all pages: sessions and passkeys belong to it.
if (location.hostname === "127.0.0.1" || location.hostname === "[::1]") {
	const url = new URL(location.href);
	url.hostname = "localhost";
	location.replace(url.href);
}

try {
	const offer = await post("/invitation/show", { token: token === "" ? "none" : token });
	email = offer.email;
	say(
		`${offer.email} is invited to ${offer.organization} with the role ${roleText(offer.role)}, until ${date(offer.expires_at)}.`,
	);
	element("form").addEventListener("submit", join);
	element("form").hidden = false;
} catch (error) {
	say(error.message);
}
