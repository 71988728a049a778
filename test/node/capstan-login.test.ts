/**
 * `capstan login` without a key, the whole way: the printed address, a person who confirms in the
 * dashboard, and the stored key.
 */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { chromium } from "./support/browser";
import { createCapstanProject } from "./support/capstan-cli";
import { APP, type Stage, sharedStage } from "./support/dashboard";
import { expectSound } from "./support/dashboard-checks";

if (chromium === undefined) console.log("skipped: capstan login in a browser, because no Chromium is installed");

describe.skipIf(chromium === undefined)("capstan login without a key", () => {
	let stage: Stage;
	beforeAll(async () => {
		stage = await sharedStage();
	});

	test("stores the key that a person creates for it in the dashboard, and the key is in no address", async () => {
		const project = await createCapstanProject(stage.product, APP);
		delete project.environment.CAPSTAN_TOKEN;
		const { child, ended } = project.start(["login", "--server", stage.origin]);
		const address = await new Promise<string>((resolve) => {
			let text = "";
			child.stderr?.on("data", (chunk) => {
				text += chunk;
				const printed = /http\S+\/dashboard(\/connect\/cli\?\S+)\n/.exec(text)?.[1];
				if (printed !== undefined) resolve(printed);
			});
		});
		const visitor = await stage.admin();
		const { page } = visitor;
		const addresses: string[] = [];
		page.on("request", (request) => addresses.push(request.url()));
		await visitor.open(address, "Sign in a command line");
		await page.getByText("Did you just run capstan login?").waitFor();
		await expectSound(visitor);
		await page.getByRole("button", { name: "Choose the roles" }).click();
		const dialog = page.getByRole("dialog");
		await dialog.getByLabel("Scope (1)").selectOption({ label: `Example shop (${APP})` });
		await dialog.getByLabel("Role (1)").selectOption({ index: 1 });
		await dialog.getByRole("button", { name: "Create key and sign in" }).click();
		await page.getByText("The key arrived.").waitFor();
		const { code, out, error } = await ended;
		expect(code, error).toBe(0);
		expect(out).toContain(`Signed in to ${stage.origin}`);
		expect(error).toContain(`Without a browser: capstan login --server ${stage.origin} --key -`);

		const stored = join(project.home, ".config/capstan/credentials.json");
		expect((await stat(stored)).mode & 0o777).toBe(0o600);
		const { key } = JSON.parse(await readFile(stored, "utf8")).servers[stage.origin];
		expect((await stage.product.api("GET", `/app/${APP}`, undefined, key)).status).toBe(200);
		expect(new URL(page.url()).hash, "the page removes the key from its address").toBe("");
		const withoutFragments = addresses.map((each) => each.split("#")[0]);
		expect([out, error, ...withoutFragments].join("\n")).not.toContain(key);
		expect(visitor.complaints).toEqual([]);
		visitor.leave();
	});
});
