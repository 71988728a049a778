/**
 * The error of a group of inputs, which has no input of its own to stand at. It looks like the
 * errors of inputs, and is announced.
 */
import { Input } from "@mantine/core";

export function InputError({ error }: { readonly error: string | undefined }) {
	return error === undefined ? null : <Input.Error role="alert">{error}</Input.Error>;
}
