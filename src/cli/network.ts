/**
 * The addresses at which a local run is reached: loopback always, the local network only when asked for with `--lan` or HOST.
 */
import { connect, createServer, isIPv4, type Server } from "node:net";
import { networkInterfaces } from "node:os";
import { Failure } from "./failure";
import { isCode } from "./state";

export const LOOPBACK = "127.0.0.1";
export const EVERY_ADDRESS = "0.0.0.0";

/** Bridges of containers and virtual machines, and tunnels: a phone in the same Wi-Fi reaches none of them. */
const VIRTUAL_INTERFACE = /^(docker|br-|veth|virbr|vmnet|vboxnet|utun|tun|tap|wg|zt|tailscale|bridge|llw|awdl)/;

/** This machine's IPv4 addresses in its networks, the likeliest one first. */
export function networkAddresses(interfaces: ReturnType<typeof networkInterfaces> = networkInterfaces()): string[] {
	const found = Object.entries(interfaces).flatMap(([name, entries]) =>
		(entries ?? [])
			.filter(({ family, internal, address }) => family === "IPv4" && !internal && !address.startsWith("169.254."))
			.map(({ address }) => ({ address, isVirtual: VIRTUAL_INTERFACE.test(name) })),
	);
	return [...found.filter(({ isVirtual }) => !isVirtual), ...found.filter(({ isVirtual }) => isVirtual)].map(
		({ address }) => address,
	);
}

/** The address to bind, from `--lan` and HOST. Throws a Failure when HOST is none. */
export function hostToServe(host: string, lan: boolean): string {
	if (host === "" || host === "localhost") return lan ? EVERY_ADDRESS : LOOPBACK;
	if (!isIPv4(host)) {
		throw new Failure(
			`HOST is "${host}"; it must be an IPv4 address of this machine, or ${EVERY_ADDRESS} for all of them.`,
		);
	}
	return host.startsWith("127.") ? LOOPBACK : host;
}

export const isLoopback = (host: string) => host === LOOPBACK;

/** Addresses of the network that a run bound to this host is reached at. */
export function servedAddresses(host: string): string[] {
	if (isLoopback(host)) return [];
	return host === EVERY_ADDRESS ? networkAddresses() : [host];
}

/** Refuses a port or an address that cannot be bound; workerd's own complaint is not readable. */
export async function refuseTakenPort(host: string, port: number): Promise<void> {
	const probe = createServer();
	await new Promise<void>((resolve, reject) => {
		probe.once("error", (error) => reject(bindFailure(error, host, port)));
		probe.listen(port, host, () => probe.close(() => resolve()));
	});
}

function bindFailure(error: Error, host: string, port: number): Failure {
	if (isCode(error, "EADDRNOTAVAIL")) {
		const own = networkAddresses().join(", ") || "none";
		return new Failure(`HOST is ${host}, which is no address of this machine (it has: ${own}).`);
	}
	const reason = isCode(error, "EACCES") ? "may not be used by this account" : "is in use";
	return new Failure(`Port ${port} ${reason}; set PORT to another one, for example PORT=${port + 1} npm start.`);
}

/**
 * Forwards loopback to a run that is bound to one other address, because browsers sign in over plain HTTP on loopback only. The runtime
 * itself listens on a single address.
 */
export async function forwardLoopback(host: string, port: number): Promise<() => Promise<void>> {
	const server: Server = createServer((incoming) => {
		const outgoing = connect(port, host);
		const end = () => {
			incoming.destroy();
			outgoing.destroy();
		};
		incoming.once("error", end).once("close", end).pipe(outgoing);
		outgoing.once("error", end).once("close", end).pipe(incoming);
		open.add(end);
		incoming.once("close", () => open.delete(end));
	});
	const open = new Set<() => void>();
	await new Promise<void>((resolve, reject) => {
		server.once("error", (error) => reject(bindFailure(error, LOOPBACK, port)));
		server.listen(port, LOOPBACK, () => resolve());
	});
	return () =>
		new Promise((resolve) => {
			server.close(() => resolve());
			for (const end of open) end();
		});
}
