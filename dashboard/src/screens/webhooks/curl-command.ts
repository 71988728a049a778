/**
 * The request of an attempt as a command for a shell. The server shows neither the address nor a
 * signature of it, so the command takes the address and the secret from variables, and signs a
 * request of now, which receivers accept although the attempt is old.
 * test/node/dashboard-webhooks.test.ts runs it against a receiver.
 */

interface ShownRequest {
	readonly headers: Readonly<Record<string, string>>;
	readonly body: string;
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** Headers whose value is of the time of the command. */
const PRESENT: Readonly<Record<string, string>> = {
	"webhook-timestamp": "$AT",
	"webhook-signature": "v1,$SIGNATURE",
	"x-capgo-timestamp": "$AT",
	"x-capgo-signature": "v1=$AT.$CAPGO_SIGNATURE",
};

export const isSigned = ({ headers }: ShownRequest) => headers["webhook-signature"] !== undefined;

export function curlCommand(request: ShownRequest): string {
	const { headers, body } = request;
	const id = headers["webhook-id"] ?? "";
	const digest = "openssl dgst -sha256";
	const signing = [
		"AT=$(date +%s)",
		`KEY=$(printf %s "\${WEBHOOK_SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \\n')`,
		`SIGNATURE=$(printf %s ${quoted(`${id}.`)}"$AT.$BODY" | ${digest} -mac HMAC -macopt "hexkey:$KEY" -binary | openssl base64 -A)`,
		...(headers["x-capgo-signature"] === undefined
			? []
			: [`CAPGO_SIGNATURE=$(printf %s "$AT.$BODY" | ${digest} -hmac "$WEBHOOK_SECRET" -r | cut -d' ' -f1)`]),
	];
	return [
		`BODY=${quoted(body)}`,
		...(isSigned(request) ? signing : []),
		'curl "$WEBHOOK_URL" \\',
		...Object.entries(headers).map(([name, value]) => {
			const present = PRESENT[name];
			return `  -H ${present === undefined ? quoted(`${name}: ${value}`) : `"${name}: ${present}"`} \\`;
		}),
		'  --data-raw "$BODY"',
	].join("\n");
}
