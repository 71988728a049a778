/**
 * Failed installs of a bundle in words: a share never stands without its count, and with the bounds
 * of the true rate. Pure.
 */
import { wilsonInterval } from "../../../../src/domain/rollouts/wilson";
import { countText, shareText } from "../../components/size";

const CONFIDENCE = 0.95;
/** Fewer installs leave an interval that tells nothing. */
const TELLING_ATTEMPTS = 5;

const percent = (share: number) => `${share < 0.0995 ? (share * 100).toFixed(1) : Math.round(share * 100)}\u00a0%`;

/** "28 of 7,030; between 0.3 % and 0.6 %" */
export function failedCountText(install: number, fail: number): string {
	const attempts = install + fail;
	if (attempts === 0) return "No installs";
	const counted = `${countText(fail)} of ${countText(attempts)}`;
	if (attempts < TELLING_ATTEMPTS) return `${counted}; too few to tell`;
	const { lower, upper } = wilsonInterval(fail, attempts, CONFIDENCE);
	return `${counted}; between ${percent(lower)} and ${percent(upper)}`;
}

/** "0.4 %: 28 of 7,030; between 0.3 % and 0.6 %" */
export function failedText(install: number, fail: number): string {
	const counted = failedCountText(install, fail);
	return install + fail === 0 ? counted : `${shareText(fail, install + fail)}: ${counted}`;
}
