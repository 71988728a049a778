/**
 * Mail to one person, through whichever provider the deployment names. Each provider is one HTTP request; a local run prints the text to
 * its terminal. It is sent after the answer, so that nobody learns from an answer or its time whether there was anything to send.
 */
import type { MailConfig } from "../config";
import type { Deps } from "../deps";
import { causeText } from "../errors";

export interface Mail {
	readonly to: string;
	readonly subject: string;
	readonly text: string;
}

/** The request that sends a mail. */
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

/** Never rejects: what could not be sent is in the log, without the mail's text. */
export async function sendMail(deps: Deps, mail: Mail): Promise<void> {
	const { mail: configured } = deps.config;
	if (configured === undefined) return;
	if (configured.provider === "terminal") {
		deps.print(`Mail to ${mail.to}: ${mail.text}`);
		return;
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
	} catch (error) {
		deps.log("error", "mail_not_sent", { provider: configured.provider, cause: causeText(error) });
	}
}
