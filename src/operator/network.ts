/**
 * Addresses of a local run: always loopback, and the local network only with `--lan` or HOST.
 */
import { connect, createServer, isIPv4, type Server } from "node:net";
import { networkInterfaces } from "node:os";
import { Failure } from "./failure";
import { isCode } from "./state";

export const LOOPBACK = "127.0.0.1";
export const EVERY_ADDRESS = "0.0.0.0";

/**
 * Container bridges, virtual machines and tunnels, which a phone in the same Wi-Fi cannot reach.
 */
const VIRTUAL_INTERFACE = /^(docker|br-|veth|virbr|vmnet|vboxnet|utun|tun|tap|wg|zt|tailscale|bridge|llw|awdl)/;

/** This machine's IPv4 addresses, physical networks first. */
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

/**
 * The address to bind, from `--lan` and HOST.
 * @throws {Failure} if HOST is not an IPv4 address
 */
export function hostToServe(host: string, lan: boolean): string {
	if (host === "" || host === "localhost") return lan ? EVERY_ADDRESS : LOOPBACK;
	if (!isIPv4(host)) {
		throw new Failure(
			`HOST is "${host}". It must be an IPv4 address of this machine, or ${EVERY_ADDRESS} for all of them.`,
		);
	}
	return host.startsWith("127.") ? LOOPBACK : host;
}

export const isLoopback = (host: string) => host === LOOPBACK;

/** Network addresses of a run that is bound to this host. */
export function servedAddresses(host: string): string[] {
	if (isLoopback(host)) return [];
	return host === EVERY_ADDRESS ? networkAddresses() : [host];
}

/** Checks that the port and address can be bound, because workerd's own error is unreadable. */
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
		return new Failure(`HOST is ${host}, which is not an address of this machine (its addresses: ${own}).`);
	}
	const reason = isCode(error, "EACCES") ? "is not permitted for this user" : "is in use";
	return new Failure(`Port ${port} ${reason}. Set PORT to another one, for example PORT=${port + 1} npm start.`);
}

export interface LoopbackForwarder {
	readonly port: number;
	stop(): Promise<void>;
}

/**
 * Forwards loopback to a run that is bound to another address, because browsers allow sign-in over
 * plain HTTP only on loopback, and the runtime listens on a single address.
 *
 * @param port 0: any free one, which the run has to take as well
 */
export async function forwardLoopback(host: string, port: number): Promise<LoopbackForwarder> {
	const server: Server = createServer((incoming) => {
		const outgoing = connect(boundPort(server), host);
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
	return {
		port: boundPort(server),
		stop: () =>
			new Promise((resolve) => {
				server.close(() => resolve());
				for (const end of open) end();
			}),
	};
}

function boundPort(server: Server): number {
	const address = server.address();
	return typeof address === "object" && address !== null ? address.port : 0;
}
