/**
 * The page of an invitation link: who invites, to what, what the role may do. Joining signs in and
 * creates a passkey at once; an API key is for those who need one, later. The token is in the
 * fragment and is sent in request bodies only, so that no server log contains it. Text from the
 * server is shown as text, never as markup.
 */
import { browserSupportsWebAuthn, startRegistration } from "@simplewebauthn/browser";
import { permissionText, permissionTexts } from "../authz/permission-texts";
import { ROLE_TEXTS } from "../authz/role-texts";

const element = (id) => document.getElementById(id);
const showMessage = (text) => {
	element("message").textContent = text;
};
const showProblem = (text) => {
	element("problem").textContent = text;
	element("problem").hidden = text === "";
};

async function send(method, path, body) {
	const response = await fetch(path, {
		method,
		...(body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
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
	new Date(text).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
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

/** A dismissed question of the browser is no error: the button stays. */
async function createPasskey() {
	showProblem("");
	try {
		const { attempt, options } = await send("POST", "/account/passkey-options", {});
		const credential = await startRegistration({ optionsJSON: options });
		await send("POST", "/account/passkeys", { attempt, name: "This device", credential });
		element("passkey").textContent =
			"Your passkey works on this device. Add a second one in your account, in case you lose it.";
		element("add-passkey").hidden = true;
	} catch (error) {
		if (error.name === "Error") showProblem(error.message);
	}
}

function showWelcome({ email: joinedAs, role }) {
	element("title").textContent = "You are in";
	showMessage(`${joinedAs} is now a member with the role ${roleText(role)}.`);
	element("passkey").textContent = withoutPasskey();
	element("add-passkey").hidden = !hasPasskeys;
	element("command").textContent = `npx --yes ${location.origin}/capstan.tgz login --server ${location.origin}`;
	for (const id of ["offer", "note", "foot", "sure", "join", "avatar"]) element(id).hidden = true;
	element("result").hidden = false;
}

async function join(withPasskey) {
	element("join").hidden = true;
	showProblem("");
	let joined;
	try {
		joined = await send("POST", "/invitation/accept", { token, sign_in: true, create_key: false });
	} catch (error) {
		if (error.code === "sign_in_required") return askToSignIn();
		element("join").hidden = false;
		return showProblem(error.message);
	}
	globalThis.sessionStorage?.removeItem(STORED_TOKEN);
	showWelcome(joined);
	if (withPasskey) await createPasskey();
}

/** Asks once, because the link does not work afterwards. */
function askToDecline(isAsked) {
	element("foot").hidden = isAsked;
	element("sure").hidden = !isAsked;
	if (isAsked) element("decline-now").focus();
	else element("decline").focus();
}

async function decline({ invited_by, organization }) {
	showProblem("");
	try {
		await send("POST", "/invitation/decline", { token });
	} catch (error) {
		return showProblem(error.message);
	}
	globalThis.sessionStorage?.removeItem(STORED_TOKEN);
	element("title").textContent = "You declined";
	showMessage(
		`You did not join ${organization}, and the link no longer works. ${invited_by} can see it in the activity of the organization.`,
	);
	for (const id of ["offer", "note", "foot", "sure", "join", "sign-in", "avatar"]) element(id).hidden = true;
}

const hasPasskeys = browserSupportsWebAuthn();
let mailsCodes = false;
/** Without mail a passkey is the only way back that needs nobody else. */
const withoutPasskey = () =>
	mailsCodes
		? "You are signed in. Without a passkey, you sign in next time with a code by e-mail."
		: "You are signed in. This server sends no e-mail: without a passkey, you get in again only with a link of its operator.";

/** `AO` for ada.okafor@example.com */
const initials = (address) =>
	address
		.split("@")[0]
		.split(/[._+-]/)
		.slice(0, 2)
		.map((part) => part.slice(0, 1).toUpperCase())
		.join("");

/** People ask about these first, so a role without one of them says so. */
const NOTABLE = ["channel.promote_bundle", "app.delete", "org.invite_user", "org.manage_apikeys"];

// All pages use one host, because sessions and passkeys belong to it.
if (location.hostname === "127.0.0.1" || location.hostname === "[::1]") {
	const url = new URL(location.href);
	url.hostname = "localhost";
	location.replace(url.href);
}

try {
	const offer = await send("POST", "/invitation/show", { token: token === "" ? "none" : token });
	email = offer.email;
	element("title").textContent = `${offer.invited_by} invites you to ${offer.organization}`;
	showMessage(`as ${roleText(offer.role)}`);
	element("avatar").textContent = initials(offer.invited_by);
	element("avatar").hidden = false;
	element("permissions").replaceChildren(
		...offer.permissions.map((permission) => {
			const item = document.createElement("li");
			item.textContent = permissionText(permission);
			return item;
		}),
	);
	const denied = NOTABLE.filter((permission) => !offer.permissions.includes(permission));
	element("denied").textContent = denied.length === 0 ? "" : `Not part of it: ${permissionTexts(denied)}.`;
	element("expiry").textContent = `For ${offer.email} only. Expires on ${date(offer.expires_at)}.`;
	element("offer").hidden = false;
	element("note").textContent = offer.note === null ? "" : `“${offer.note}”`;
	element("note").hidden = offer.note === null;
	element("foot").hidden = false;
	element("sure-text").textContent = `Decline the invitation of ${offer.invited_by}? The link stops working.`;
	element("decline").addEventListener("click", () => askToDecline(true));
	element("keep").addEventListener("click", () => askToDecline(false));
	element("decline-now").addEventListener("click", () => decline(offer));
	element("join-passkey").hidden = !hasPasskeys;
	if (!hasPasskeys) element("join-plain").className = "button primary";
	element("passkey-hint").hidden = !hasPasskeys;
	element("join-passkey").addEventListener("click", () => join(true));
	element("join-plain").addEventListener("click", () => join(false));
	element("add-passkey").addEventListener("click", createPasskey);
	element("join").hidden = false;
	const methods = await send("GET", "/sign-in/methods").catch(() => undefined);
	mailsCodes = methods?.code === true;
} catch (error) {
	showMessage(error.message);
}
