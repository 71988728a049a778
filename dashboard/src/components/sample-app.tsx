/**
 * Adds the sample app of an organization, and removes it: one click each, because nothing real is
 * created or lost.
 */
import { Button } from "@mantine/core";
import { useLocation } from "wouter";
import { isSampleAppId } from "../../../src/domain/sample-app";
import { useChange } from "../api";
import { useAppsOfOrganization } from "../organizations";
import { appPath, organizationPath } from "../paths";
import { useAppMay, useOrganizationMay } from "../permissions";
import { Problem } from "./answer";
import { Note } from "./card";
import { TextLink } from "./link";
import { notify } from "./notify";

/** Leads to the sample app if the organization has one. */
export function AddSample({ orgId }: { readonly orgId: string }) {
	const [, navigate] = useLocation();
	const may = useOrganizationMay(orgId);
	const apps = useAppsOfOrganization(orgId);
	const sample = apps.data?.find(({ app_id }) => isSampleAppId(app_id));
	const add = useChange("POST /app/sample", ({ app_id }) => {
		notify("Sample app added.");
		navigate(appPath(app_id));
	});
	if (may("org.create_app") !== true || apps.data === undefined) return null;
	return (
		<div className="sample-offer">
			<span className="said">
				Just looking? A sample app has a month of releases, rollouts and devices.{" "}
				{sample === undefined ? "One click removes it again." : null}
			</span>
			{sample === undefined ? (
				<Button
					size="xs"
					variant="default"
					loading={add.isPending}
					onClick={() => add.mutate({ body: { owner_org: orgId } })}
				>
					Add a sample app
				</Button>
			) : (
				<TextLink to={appPath(sample.app_id)}>Open the sample app</TextLink>
			)}
			{add.isError ? <Problem error={add.error} /> : null}
		</div>
	);
}

/** The way out, on top of the sample app's home and in its settings. */
export function SampleNote({ appId, orgId }: { readonly appId: string; readonly orgId: string }) {
	const [, navigate] = useLocation();
	const may = useAppMay(appId, orgId);
	const remove = useChange("DELETE /app/:app_id", () => {
		notify("Sample app removed.");
		navigate(organizationPath(orgId));
	});
	return (
		<Note tone="preview" title="This is a sample app">
			<div className="row wrap">
				<span className="grow">Its people, devices and figures are made up. Change what you like.</span>
				{may("app.delete") === true ? (
					<Button
						size="xs"
						variant="default"
						loading={remove.isPending}
						onClick={() => remove.mutate({ params: { app_id: appId } })}
					>
						Remove sample app
					</Button>
				) : null}
			</div>
			{remove.isError ? <Problem error={remove.error} /> : null}
		</Note>
	);
}
