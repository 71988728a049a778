/**
 * Mail to one person, by the configured provider: one HTTP request. A local run prints the text to
 * its terminal. It is sent after the answer, so that neither the answer nor its timing reveals
 * whether mail was sent.
 */
import type { MailConfig } from "./config";
import type { Deps } from "./deps";
import { causeText } from "./errors";

export interface Mail {
	readonly to: string;
	readonly subject: string;
	readonly text: string;
}

/** The HTTP request that sends a mail. */
type Compose = (
	mail: Mail,
	config: { readonly from: string; readonly apiKey: string },
) => {
	readonly url: string;
	readonly headers: Readonly<Record<string, string>>;
	readonly body: unknown;
};

const PROVIDERS: Readonly<Record<Exclude<MailConfig["provider"], "terminal">, Compose>> = {
	resend: ({ to, subject, text }, { from, apiKey }) => ({
		url: "https://api.resend.com/emails",
		headers: { authorization: `Bearer ${apiKey}` },
		body: { from, to: [to], subject, text },
	}),
	postmark: ({ to, subject, text }, { from, apiKey }) => ({
		url: "https://api.postmarkapp.com/email",
		headers: { "x-postmark-server-token": apiKey },
		body: { From: from, To: to, Subject: subject, TextBody: text },
	}),
};

/**
 * Never rejects: failures are logged, without the text of the mail.
 * @returns whether the provider accepted the mail
 */
export async function sendMail(deps: Deps, mail: Mail): Promise<boolean> {
	const { mail: configured } = deps.config;
	if (configured === undefined) return false;
	if (configured.provider === "terminal") {
		deps.print(`Mail to ${mail.to}: ${mail.text}`);
		return true;
	}
	try {
		const { url, headers, body } = PROVIDERS[configured.provider](mail, configured);
		const response = await deps.fetch(url, {
			method: "POST",
			headers: { ...headers, "content-type": "application/json", accept: "application/json" },
			body: JSON.stringify(body),
		});
		await response.body?.cancel();
		if (!response.ok) throw new Error(`${configured.provider} answered ${response.status}`);
		return true;
	} catch (error) {
		deps.log("error", "mail_not_sent", { provider: configured.provider, cause: causeText(error) });
		return false;
	}
}
