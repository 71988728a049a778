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
	if (response?.ok !== true) throw new Error(answer?.message ?? "The server did not answer; try again in a moment.");
	return answer;
}

const roleText = (name) => ROLE_TEXTS[name] ?? name;
const date = (text) => new Date(text).toLocaleString();
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";

async function join(event) {
	event.preventDefault();
	element("form").hidden = true;
	try {
		const joined = await post("/invitation/accept", { token, name: element("name").value, sign_in: true });
		element("key").value = joined.api_key.key;
		element("result").hidden = false;
		say(
			`${joined.email} is a member now, with the role ${roleText(joined.role)}. The key runs out on ${date(joined.api_key.expires_at)}.${joined.signed_in ? " You are signed in; add a passkey to come back with." : ""}`,
		);
	} catch (error) {
		element("form").hidden = false;
		say(error.message);
	}
}

try {
	const offer = await post("/invitation/show", { token: token === "" ? "none" : token });
	say(
		`${offer.email} is invited to ${offer.organization} with the role ${roleText(offer.role)}, until ${date(offer.expires_at)}.`,
	);
	element("form").addEventListener("submit", join);
	element("form").hidden = false;
} catch (error) {
	say(error.message);
}
