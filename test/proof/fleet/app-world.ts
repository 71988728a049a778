/**
 * An app as its operators know it: its bundles and channels, changed by requests only. Devices
 * learn their updates from the product's answers; this class holds only the facts that attribute an
 * answer to a channel.
 */
import { createHash } from "node:crypto";
import { strToU8, zipSync } from "fflate";
import type { SimulatedProduct } from "./product";
import { below, draw, type Stream } from "./random";
import type { RolloutTruth } from "./rollout-truth";
import { AppTruth } from "./truth";

export type Platform = "ios" | "android" | "electron";

export interface Bundle {
	readonly id: number;
	readonly version: string;
	/** SHA-256 of the zip. */
	readonly checksum: string;
	readonly sizeBytes: number;
	/** SHA-256 of each file; undefined when the bundle is a zip only. */
	readonly files: ReadonlySet<string> | undefined;
	deleted: boolean;
}

interface Channel {
	readonly id: number;
	readonly name: string;
	readonly selfSet: boolean;
	/** Platforms for which the channel is public. */
	readonly publicFor: readonly Platform[];
}

const TUS = { "tus-resumable": "1.0.0" };

export class AppWorld {
	readonly truth: AppTruth;
	readonly bundles = new Map<string, Bundle>();
	readonly channels = new Map<string, Channel>();
	/** Versions that were rolled back; no device may get them again. */
	readonly withdrawn = new Set<string>();
	/** Its devices have no faults except broken bundles. */
	isCalm = false;
	/** The rollout that the service advances automatically. */
	rollout: RolloutTruth | undefined;
	readonly #product: SimulatedProduct;
	/** Sizes of the files in the delta store, by their SHA-256. */
	readonly #stored = new Map<string, number>();
	#released = 0;

	private constructor(
		product: SimulatedProduct,
		readonly appId: string,
		uuid: string,
		readonly orgId: string,
	) {
		this.#product = product;
		this.truth = new AppTruth(appId, uuid, orgId);
	}

	static async create(product: SimulatedProduct, appId: string, orgId: string): Promise<AppWorld> {
		const { id } = await product.api("POST", "/app", { app_id: appId, name: appId, owner_org: orgId });
		return new AppWorld(product, appId, id, orgId);
	}

	/**
	 * Publishes a new version with different bytes, with a manifest if the fleet downloads single
	 * files.
	 */
	async publish(chance: Stream, withFiles: boolean): Promise<Bundle> {
		this.#released += 1;
		const version = `1.${this.#released}.0`;
		const files: Record<string, Uint8Array> = {
			"index.html": strToU8(`<!doctype html><title>${this.appId} ${version}</title>`),
			"app.js": noise(chance, `app ${version}`, 3_000 + below(chance, 9_000)),
			// The same in every version, so a device downloads it once.
			"vendor.js": strToU8(`vendor ${this.appId} ${"v".repeat(8_000)}`),
		};
		const zip = zipSync(files, { mtime: new Date("2028-02-15T00:00:00Z"), level: 0 });
		const checksum = sha256(zip);
		const named = { app_id: this.appId, version };
		const { id, upload_url } = await this.#product.api("POST", "/bundle", { ...named, checksum, size: zip.length });
		await this.#product.send("PUT", upload_url, {}, zip);
		if (withFiles) await this.#storeFiles(version, files);
		const hashes = new Set(Object.values(files).map(sha256));
		const bundle = {
			id,
			version,
			checksum,
			sizeBytes: zip.length,
			files: withFiles ? hashes : undefined,
			deleted: false,
		};
		this.bundles.set(version, bundle);
		this.truth.versions.add(version);
		return bundle;
	}

	async #storeFiles(version: string, files: Record<string, Uint8Array>): Promise<void> {
		const manifest = [];
		for (const [name, bytes] of Object.entries(files)) {
			const hash = sha256(bytes);
			const path = `orgs/${this.orgId}/apps/${this.appId}/delta/${sha256(Buffer.from(hash))}_${name}`;
			manifest.push({ file_name: name, s3_path: path, file_hash: hash });
			if (this.#stored.has(hash)) continue;
			const metadata = `filename ${Buffer.from(path).toString("base64")}`;
			const created = await this.#product.send("POST", "/files/upload/attachments", {
				...TUS,
				"upload-length": String(bytes.length),
				"upload-metadata": metadata,
			});
			const location = new URL(created.headers.location ?? "", this.#product.origin);
			await this.#product.send(
				"PATCH",
				location.pathname,
				{ ...TUS, "upload-offset": "0", "content-type": "application/offset+octet-stream" },
				bytes,
			);
			this.#stored.set(hash, bytes.length);
		}
		await this.#product.api("POST", "/private/set_manifest", { app_id: this.appId, name: version, manifest });
	}

	/** Creates or changes a channel. */
	async setChannel(name: string, fields: Record<string, unknown>): Promise<void> {
		const { id } = await this.#product.api("POST", "/channel", { app_id: this.appId, channel: name, ...fields });
		const known = this.channels.get(name);
		const isPublic = (fields.public as boolean | undefined) ?? (known !== undefined && known.publicFor.length > 0);
		const serves = (platform: Platform) =>
			(fields[platform] as boolean | undefined) ?? known?.publicFor.includes(platform) ?? true;
		this.channels.set(name, {
			id,
			name,
			selfSet: (fields.allow_device_self_set as boolean | undefined) ?? known?.selfSet ?? false,
			publicFor: isPublic ? (["ios", "android", "electron"] as const).filter(serves) : [],
		});
		this.truth.channels.set(id, name);
	}

	async deleteChannel(name: string): Promise<void> {
		const channel = this.channels.get(name);
		if (channel === undefined) return;
		await this.#product.api("DELETE", `/channel?app_id=${this.appId}&channel=${name}`);
		this.channels.delete(name);
		this.truth.channels.delete(channel.id);
		for (const [deviceId, override] of this.truth.overrides) {
			if (override.channelId === channel.id) this.truth.overrides.delete(deviceId);
		}
	}

	async deleteBundle(bundle: Bundle): Promise<void> {
		await this.#product.api("DELETE", `/bundle?app_id=${this.appId}&version=${bundle.version}`);
		bundle.deleted = true;
		for (const [deviceId, override] of this.truth.overrides) {
			if (override.version === bundle.version) this.truth.overrides.delete(deviceId);
		}
	}

	async setOverride(deviceId: string, channel: string | undefined, bundle: Bundle | undefined): Promise<void> {
		const before = this.truth.overrides.get(deviceId);
		await this.#product.api("POST", "/device", {
			app_id: this.appId,
			device_id: deviceId,
			...(channel === undefined ? {} : { channel }),
			...(bundle === undefined ? {} : { version_id: bundle.id }),
		});
		this.truth.named.add(deviceId);
		const channelId = channel === undefined ? undefined : this.channels.get(channel)?.id;
		this.truth.overrides.set(deviceId, {
			channelId: channelId ?? before?.channelId ?? null,
			version: bundle?.version ?? before?.version ?? null,
		});
	}

	async unsetOverride(deviceId: string): Promise<void> {
		await this.#product.api("DELETE", `/device?app_id=${this.appId}&device_id=${deviceId}`);
		this.truth.overrides.delete(deviceId);
	}

	/** The channel that decides a check of the device; null if there is none. */
	decidingChannel(deviceId: string, platform: Platform, defaultChannel: string): number | null {
		const override = this.truth.overrides.get(deviceId)?.channelId ?? null;
		if (override !== null) return override;
		const named = this.channels.get(defaultChannel);
		if (named !== undefined && (named.selfSet || named.publicFor.length > 0)) return named.id;
		for (const channel of this.channels.values()) if (channel.publicFor.includes(platform)) return channel.id;
		return null;
	}

	/** Records the stored bytes at the end of the day. */
	endDay(day: number): void {
		this.truth.storage.set(day, this.storedBytes);
		// The last sessions may end after midnight.
		this.truth.endDaysBefore(day);
	}

	/** Bytes of all zips and of the files in their manifests; each file counts once. */
	get storedBytes(): number {
		const files = new Set(this.live.flatMap((bundle) => [...(bundle.files ?? [])]));
		const zips = this.live.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
		return [...files].reduce((sum, hash) => sum + (this.#stored.get(hash) ?? 0), zips);
	}

	/** Existing bundles, newest first. */
	get live(): Bundle[] {
		return [...this.bundles.values()].filter(({ deleted }) => !deleted).reverse();
	}
}

/** Text that starts with the name and does not compress. */
function noise(chance: Stream, name: string, length: number): Uint8Array {
	const own = { chance: chance.chance };
	let text = name;
	while (text.length < length) text += draw(own).toString(36).slice(2);
	return strToU8(text);
}

export function sha256(bytes: Uint8Array): string {
	return createHash("sha256").update(bytes).digest("hex");
}
