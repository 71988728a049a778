/**
 * The page of an invitation link. The token is in the fragment and is sent in request bodies only, so that no server log contains it. Text
 * from the server is shown as text, never as markup.
 */
import { permissionText } from "../authz/permission-texts";
import { ROLE_TEXTS } from "../authz/role-texts";

const element = (id) => document.getElementById(id);
const showMessage = (text) => {
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
		const error = new Error(answer?.message ?? "The server did not answer. Try again in a moment.");
		error.code = answer?.error;
		throw error;
	}
	return answer;
}

const roleText = (name) => ROLE_TEXTS[name] ?? name;
const date = (text) =>
	new Date(text).toLocaleString(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const given = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
/** Keeps the token in this tab during the sign-in, because a URL would send it to servers and logs. */
const STORED_TOKEN = "capstan-invitation";
const token = given === "" ? (globalThis.sessionStorage?.getItem(STORED_TOKEN) ?? "") : given;
let email = "";

/** An existing account joins from its own session only. */
function askToSignIn() {
	globalThis.sessionStorage?.setItem(STORED_TOKEN, token);
	element("sign-in-link").href = `/sign-in?next=/invitation#as=${encodeURIComponent(email)}`;
	element("sign-in").hidden = false;
	showMessage(`${email} already has an account. Sign in to it, then join.`);
}

async function join(event) {
	event.preventDefault();
	element("form").hidden = true;
	try {
		const joined = await post("/invitation/accept", { token, name: element("name").value, sign_in: true });
		globalThis.sessionStorage?.removeItem(STORED_TOKEN);
		element("key").value = joined.api_key.key;
		element("result").hidden = false;
		element("offer").hidden = true;
		element("foot").hidden = true;
		element("title").textContent = "You are in";
		showMessage(
			`${joined.email} is now a member with the role ${roleText(joined.role)}. The key expires on ${date(joined.api_key.expires_at)}.${joined.signed_in && given !== "" ? " You are signed in. Add a passkey in the dashboard to sign in next time." : ""}`,
		);
	} catch (error) {
		if (error.code === "sign_in_required") return askToSignIn();
		element("form").hidden = false;
		showMessage(error.message);
	}
}

// All pages use one host, because sessions and passkeys belong to it.
if (location.hostname === "127.0.0.1" || location.hostname === "[::1]") {
	const url = new URL(location.href);
	url.hostname = "localhost";
	location.replace(url.href);
}

try {
	const offer = await post("/invitation/show", { token: token === "" ? "none" : token });
	email = offer.email;
	element("title").textContent = `${offer.invited_by} invites you to ${offer.organization}`;
	showMessage(`as ${roleText(offer.role)}`);
	element("permissions").replaceChildren(
		...offer.permissions.map((permission) => {
			const item = document.createElement("li");
			item.textContent = permissionText(permission);
			return item;
		}),
	);
	element("expiry").textContent = `For ${offer.email} only. Expires on ${date(offer.expires_at)}.`;
	element("offer").hidden = false;
	element("form").addEventListener("submit", join);
	element("form").hidden = false;
} catch (error) {
	showMessage(error.message);
}
