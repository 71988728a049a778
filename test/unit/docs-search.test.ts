/**
 * The search of /docs finds what people type: the queries that a new user tried without a hit,
 * parts of words, words of code blocks, and forms of a word. Each has the page that should come
 * first.
 */
import { describe, expect, test } from "vitest";
import { search, wordsOf } from "../../src/domain/words/search";
import { GUIDE_NAMES, searchIndex } from "../../src/operator/docs-pages";
import { openApiText } from "../../src/operator/openapi";
import { guideText } from "../node/support/guide-blocks";

const entries = searchIndex(new Map(GUIDE_NAMES.map((name) => [name, guideText(name)])), JSON.parse(openApiText()));
const found = (query: string) => search(entries, query, 8).map(({ to }) => to);

describe("the first place of a query", () => {
	test.each([
		["notifyappready", "/docs/first-update#2-install-the-plugin-and-call-notifyappready"],
		["not updating", "/docs/does-not-update"],
		["backup", "/docs/operating#backup"],
		["migrate from capgo", "/docs/moving#migrate-from-capgo"],
		["emulator", "/docs/first-update#android-emulator-and-phone"],
		["simulator", "/docs/first-update#ios-simulator-and-iphone"],
		["iphone", "/docs/first-update#ios-simulator-and-iphone"],
		["upgrade", "/docs/operating#upgrade"],
		["uninstall", "/docs/operating#uninstall"],
		["self assign", "/docs/javascript#channels"],
		["under native", "/docs/how-a-device-decides#under-native-older-than-the-store-build"],
		["monorepo", "/docs/faq#monorepo-which-folder"],
		["azure", "/docs/faq#azure-pipelines-bitbucket-jenkins-codemagic"],
		["proxy", "/docs/faq#does-the-command-work-behind-a-proxy"],
		["windows", "/docs/faq#does-it-run-on-windows"],
		["sso", "/docs/faq#is-there-an-sso"],
		["export data", "/docs/faq#export-data"],
		["openapi", "/docs/faq#openapi"],
		["pagination", "/docs/faq#pagination"],
	])("of the review, %s, is %s", (query, place) => expect(found(query)[0]).toBe(place));

	test.each([
		["device does not update", "/docs/does-not-update"],
		["disable_auto_update_under_native", "/docs/how-a-device-decides#disable_auto_update_under_native"],
		["disable_emulator", "/docs/how-a-device-decides#disable_emulator"],
		["first update", "/docs/first-update"],
		["how do i encrypt", "/docs/encryption"],
		["appflow", "/docs/moving#migrate-from-appflow"],
		["codepush", "/docs/moving#migrate-from-codepush"],
		["custom id", "/docs/javascript#a-custom-id"],
		["staged rollout", "/docs/rollouts"],
		["webhooks", "/docs/webhooks"],
		["npx hangs", "/docs/faq#npx-prints-nothing-for-a-minute"],
		["offline", "/docs/faq#what-if-the-server-is-down"],
		["turborepo", "/docs/faq#monorepo-which-folder"],
		["github enterprise", "/docs/faq#github-enterprise-a-gitlab-of-your-own"],
		["nvmrc", "/docs/cli#start"],
		["private registry", "/docs/cli#start"],
		["EINTEGRITY", "/docs/cli"],
		["gdpr", "/docs/stores-and-versions#privacy"],
		["app store review", "/docs/stores-and-versions#while-the-app-is-in-review"],
		["staging", "/docs/operating#staging"],
		["rate limit", "/docs/faq#rate-limits"],
		["POST /channel/rollback", "/docs/api#/Channels/postChannelRollback"],
	])("%s is %s", (query, place) => expect(found(query)[0]).toBe(place));

	test.each([
		["words of code blocks", "NSAllowsLocalNetworking", "/docs/first-update#ios-simulator-and-iphone"],
		["the middle of a word", "cleartex", "/docs/first-update#android-emulator-and-phone"],
		["a part of a name", "splashscreen", "/docs/javascript#when-an-update-is-applied"],
		["another form of a word", "encrypting", "/docs/encryption"],
	])("%s: %s is among the first three", (_, query, place) => expect(found(query).slice(0, 3)).toContain(place));

	test("nothing is found for words that the docs do not have, and for none", () => {
		expect(found("qwxzzy")).toEqual([]);
		expect(found("  ")).toEqual([]);
	});

	test("half of the words suffice if no place has all", () => {
		expect(found("backup qwxzzy")[0]).toBe("/docs/operating#backup");
	});
});

test("names count whole and in their parts", () => {
	expect(wordsOf("notifyAppReady() allow_device_self_set")).toEqual([
		"notifyappready",
		"notify",
		"app",
		"ready",
		"allow_device_self_set",
		"allow",
		"device",
		"self",
		"set",
	]);
});
