/**
 * The part of the published library that the tests use, because its own types need those of
 * browsers.
 */
declare module "standardwebhooks" {
	export class Webhook {
		constructor(secret: string);
		sign(id: string, timestamp: Date, payload: string): string;
		verify(payload: string, headers: Readonly<Record<string, string>>): unknown;
	}
}
