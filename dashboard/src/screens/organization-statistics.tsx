/** The figures of all apps of an organization, one layer an app. */
import type { OrganizationScreenProps } from "../app";
import { COMMON_FIGURES, Statistics } from "./statistics";

export default function OrganizationStatistics({ orgId }: OrganizationScreenProps) {
	return <Statistics address={`/statistics/org/${orgId}`} figures={COMMON_FIGURES} extra={{ breakdown: "true" }} />;
}
