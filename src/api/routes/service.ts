/**
 * The service about itself.
 */
import { endpoint } from "../endpoint";
import { acknowledgement, OK } from "../schemas";

export const health = endpoint({
	method: "GET",
	path: "/ok",
	tag: "Service",
	summary: "Whether the Worker runs",
	access: { public: "It tells nothing but that the Worker answers." },
	response: acknowledgement,
	errors: [],
	example: { response: OK },
	async handle() {
		return OK;
	},
});
