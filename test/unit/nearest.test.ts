import { describe, expect, test } from "vitest";
import { likeness, nearest } from "../../dashboard/src/components/nearest";

const named = (...names: string[]) => names.map((name) => ({ name, to: `/${name}` }));

describe("nearest", () => {
	test("finds names with a typing error, the most similar first", () => {
		const names = named("com.acme.shop", "com.acme.shops", "org.other.app", "dev");
		expect(nearest("com.acme.shap", names).map(({ name }) => name)).toEqual(["com.acme.shop", "com.acme.shops"]);
		expect(nearest("productoin", named("production", "beta")).map(({ name }) => name)).toEqual(["production"]);
		expect(nearest("2.4.0", named("2.4.1", "9.9.9")).map(({ name }) => name)).toEqual(["2.4.1"]);
	});

	test("names nothing that is not alike, and each thing once", () => {
		expect(nearest("billing", named("production", "beta"))).toEqual([]);
		const twice = [
			{ name: "shop", to: "/shop" },
			{ name: "shops", to: "/shop" },
		];
		expect(nearest("shop", twice)).toHaveLength(1);
	});

	test("compares in any case and any script", () => {
		expect(likeness("Beta", "beta")).toBe(1);
		expect(likeness("", "beta")).toBe(0);
		expect(likeness("مستودع", "مستودع")).toBe(1);
	});
});
