/**
 * Reads repository and pull request from the token of a CI job.
 */
import { describe, expect, test } from "vitest";
import type { Claims } from "../../src/domain/ci/claims";
import { ciContextOf } from "../../src/domain/ci/providers";

const CIRCLE = "oidc.circleci.com/";
const ofCircle = (claims: Claims) => ciContextOf("circleci", claims, "https://oidc.circleci.com/org/8c2f");

describe("the token of a CircleCI job", () => {
	test.each(["refs/heads/pull/7", "refs/pull/7/head", "pull/7", "pull/7/head"])(
		"names pull request 7 by the ref %s",
		(ref) => {
			expect(ofCircle({ [`${CIRCLE}vcs-ref`]: ref }).number).toBe(7);
		},
	);

	test.each(["refs/heads/feature/pull/7", "refs/heads/hotpull/7", "refs/heads/pull/7-fix", "refs/heads/main"])(
		"names no pull request by the ref %s",
		(ref) => {
			expect(ofCircle({ [`${CIRCLE}vcs-ref`]: ref }).number).toBeNull();
		},
	);

	test.each(["github.com", "bitbucket.org"])("names a repository of %s without its host", (host) => {
		expect(ofCircle({ [`${CIRCLE}vcs-origin`]: `${host}/acme/shop` }).repository).toBe("acme/shop");
	});
});
