/**
 * E-mail addresses that belong to the service itself: accounts that the operator's command line creates have them. Nobody can receive
 * mail there, so nobody may invite, take or prove one.
 */
const RESERVED_DOMAIN = "capstan.local";

/** The address of the account that the first run creates, until its owner changes it. */
export const FIRST_ACCOUNT_EMAIL = `admin@${RESERVED_DOMAIN}`;

export function isReservedAddress(email: string): boolean {
	return email.toLowerCase().endsWith(`@${RESERVED_DOMAIN}`);
}

/** An address of the domain that no other account can have. */
export const operatorAddress = (id: string) => `admin-${id}@${RESERVED_DOMAIN}`;
