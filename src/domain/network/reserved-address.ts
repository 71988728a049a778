/**
 * E-mail addresses of the service's own accounts, which the operator's commands create. Nobody
 * receives mail there, so they cannot be invited, claimed or verified.
 */
const RESERVED_DOMAIN = "capstan.local";

/** The address of the first account, until its owner changes it. */
export const FIRST_ACCOUNT_EMAIL = `admin@${RESERVED_DOMAIN}`;

export function isReservedAddress(email: string): boolean {
	return email.toLowerCase().endsWith(`@${RESERVED_DOMAIN}`);
}

/** A unique reserved address. */
export const operatorAddress = (id: string) => `admin-${id}@${RESERVED_DOMAIN}`;
