/**
 * The floor of a warm check: reads the same body and answers as many bytes with the same headers,
 * without any library or decision.
 */
const ANSWER = JSON.stringify({
	version: "1.0.1",
	url: `https://updates.example.com/files/download/${"-".repeat(180)}&signature=${"0".repeat(64)}`,
	session_key: "",
	checksum: "0".repeat(64),
});
const HEADERS = new Headers({ "content-type": "application/json", "cache-control": "private, no-store" });

export default {
	async fetch(request) {
		const { app_id } = JSON.parse(await request.text()) as { readonly app_id?: string };
		return new Response(app_id === undefined ? "{}" : ANSWER, { headers: HEADERS });
	},
} satisfies ExportedHandler;
