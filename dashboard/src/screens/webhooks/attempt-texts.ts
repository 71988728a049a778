/** Requests and answers of webhooks as text. An answer is of a stranger and has no markup. */

interface Answered {
	readonly status_code: number | null;
	readonly error: string | null;
	readonly response: { readonly headers: Readonly<Record<string, string>>; readonly body: string } | null;
}

interface Sent {
	readonly method: string;
	readonly url: string;
	readonly headers: Readonly<Record<string, string>>;
	readonly body: string;
}

const headerLines = (headers: Readonly<Record<string, string>>) =>
	Object.entries(headers).map(([name, value]) => `${name}: ${value}`);

export function responseText({ status_code, response, error }: Answered): string {
	if (response === null) return error ?? "no response";
	const body = response.body === "" ? "(no body)" : response.body;
	return [`HTTP ${status_code}`, ...headerLines(response.headers), "", body].join("\n");
}

export function requestText({ method, url, headers, body }: Sent): string {
	return [`${method} ${url}`, ...headerLines(headers), "", indented(body)].join("\n");
}

/** The body is JSON in each format. */
function indented(body: string): string {
	try {
		return JSON.stringify(JSON.parse(body), null, 2);
	} catch {
		return body;
	}
}
