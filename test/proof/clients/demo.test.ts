/**
 * `npm run demo` inside a running product: the dashboard's API shows its app, a second demo
 * replaces the first, and `--remove` deletes all of it.
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Product, startProduct } from "../../node/support/product";

const PROJECT = fileURLToPath(new URL("../../..", import.meta.url));

let product: Product;
beforeAll(async () => {
	product = await startProduct();
});
afterAll(() => product?.stop());

async function demo(...options: string[]): Promise<string> {
	const child = spawn(process.execPath, ["src/operator/launch.js", "test/proof/clients/demo.ts", ...options], {
		cwd: PROJECT,
		env: { ...process.env, CAPSTAN_STATE: product.running.stateDirectory },
		stdio: ["ignore", "pipe", "pipe"],
	});
	let output = "";
	for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
	const code = await new Promise((resolve) => child.once("close", resolve));
	expect(code, output).toBe(0);
	return output;
}

const names = async (path: string, field: string): Promise<string[]> =>
	(await product.api("GET", path)).body.map((row: Record<string, string>) => row[field]);

test("npm run demo plays in the product that runs, as often as one likes, and --remove deletes its app and keys", async () => {
	const [apps, keys] = [await names("/app", "app_id"), await names("/apikey", "name")];
	for (let time = 0; time < 2; time++) {
		const output = await demo();
		expect(output).toContain(`${product.running.pageUrl}/dashboard/apps/com.example.demo/overview`);
		expect(output).toContain("the tester's device returns to 1.0.1");
		expect(output).not.toContain("[ElectronUpdater]");
		expect(await names("/app", "app_id")).toEqual([...apps, "com.example.demo"]);
		expect(await names("/apikey", "name")).toHaveLength(keys.length + 3);
		expect((await product.api("GET", "/channel?app_id=com.example.demo")).body).toMatchObject([
			{ name: "production", version: { name: "1.0.1" } },
		]);
	}
	expect(await demo("--remove")).toContain("are removed");
	expect(await names("/app", "app_id")).toEqual(apps);
	expect(await names("/apikey", "name")).toEqual(keys);
	expect(await demo("--remove")).toContain("There is no demo");
});
