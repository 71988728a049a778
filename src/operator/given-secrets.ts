/**
 * Secrets of the installation that the operator gives in the environment, because Cloudflare does
 * not show them. A malformed one is refused before anything is changed.
 */
import { parseSecret, SECRET_NAMES } from "../domain/secrets";
import { Failure } from "./failure";

export function givenSecrets(): string[] {
	return SECRET_NAMES.flatMap((name) => {
		const text = process.env[name];
		if (text === undefined || text === "") return [];
		if (parseSecret(text) === undefined) {
			throw new Failure(`${name} in the environment is not a secret of Capstan, which has 64 hexadecimal digits.`);
		}
		return [text];
	});
}

export const givenSecretIds = (): string[] => givenSecrets().flatMap((text) => parseSecret(text)?.id ?? []);
