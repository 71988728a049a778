/**
 * The one place that turns an audit entry into an event. A trigger sees every entry, whichever code
 * writes it, in the batch of the change: a change and its event cannot disagree. An organization
 * without an enabled webhook gets no row.
 */
import { OPERATION_OF_ACTION, RECORD_OF_TARGET } from "../domain/webhooks/audit-records";
import { type AuditRule, EVENT_TYPES, eventOf, PROMOTING_FIELDS } from "../domain/webhooks/event-types";
import { TEST_EVENT } from "../domain/webhooks/events";
import { RECORD_TABLES } from "../domain/webhooks/records";

/** Type of a value of the change; NULL if the change does not set it, 'null' if it removes it. */
const set = (field: string) => `json_type(NEW.after, '$.${field}')`;
const isAction = (...actions: readonly string[]) => `NEW.action IN (${actions.map((each) => `'${each}'`).join(", ")})`;

function isSet(field: string, to: "any" | "value" | "text" | "integer"): string {
	if (to === "any") return `${set(field)} IS NOT NULL`;
	return to === "value" ? `${set(field)} <> 'null'` : `${set(field)} = '${to}'`;
}

function conditionOf({ actions, promoting }: AuditRule): string {
	const byAction = actions.length === 0 ? [] : [isAction(...actions)];
	if (promoting === undefined) return byAction.join();
	const { field, changed, created } = promoting;
	const ways = [
		...byAction,
		`${isAction("channel.promote", "channel.update")} AND ${isSet(field, changed)}`,
		...(created === null ? [] : [`${isAction("channel.create")} AND ${isSet(field, created)}`]),
	];
	return ways.join(" OR ");
}

/** Position of the rule: an action is one event, and of several fields the first decides. */
const rankOf = ({ promoting }: AuditRule) => (promoting === undefined ? -1 : PROMOTING_FIELDS.indexOf(promoting.field));

/** The audit entries of each event; the first rule that holds decides. */
const RULES = EVENT_TYPES.flatMap((type) => {
	const { audit } = eventOf(type);
	return audit === null ? [] : [{ type, rank: rankOf(audit), condition: conditionOf(audit) }];
}).sort((one, other) => one.rank - other.rank);

const TYPE = `CASE ${RULES.map(({ type, condition }) => `WHEN ${condition} THEN '${type}'`).join("\n\t\t\t")} END`;
/**
 * The record of an audit entry, and what happened to it; NULL: no record of those that webhooks
 * know.
 */
const RECORD_TYPE = `${RECORD_OF_TARGET("NEW.target_type", "NEW.action")} || '.' || ${OPERATION_OF_ACTION("NEW.action")}`;
const TABLE_OF_TYPE = (type: string) => `substr(${type}, 1, instr(${type}, '.') - 1)`;
const IS_RECORD_EVENT = `${TABLE_OF_TYPE("NEW.type")} IN (${RECORD_TABLES.map((table) => `'${table}'`).join(", ")})`;
const DATA = `json_object(
		    'organization_id', NEW.org_id, 'app_id', NEW.app_id, 'action', NEW.action,
		    'actor', json_object('type', NEW.actor_type, 'id', NEW.actor_id, 'name', NEW.actor_name),
		    'target', json_object('type', NEW.target_type, 'id', NEW.target_id, 'name', NEW.target_name),
		    'before', json(NEW.before), 'after', json(NEW.after), 'details', json(NEW.details))`;

/** Signatures are computed over the id, in which no "." may be. */
const NEW_EVENT_ID = "'msg_' || lower(hex(randomblob(16)))";

export const WEBHOOK_TRIGGERS: Readonly<Record<string, string>> = {
	webhook_events_of_audit: `AFTER INSERT ON audit_log
		WHEN EXISTS (SELECT 1 FROM webhooks WHERE org_id = NEW.org_id AND disabled_at_ms IS NULL)
		BEGIN
		  INSERT INTO webhook_events (id, org_id, app_id, type, at_ms, data)
		  SELECT ${NEW_EVENT_ID}, NEW.org_id, NEW.app_uuid, event.type, NEW.at_ms, ${DATA}
		  FROM (SELECT ${TYPE} AS type) AS event WHERE event.type IS NOT NULL;
		  INSERT INTO webhook_events (id, org_id, app_id, type, at_ms, data)
		  SELECT ${NEW_EVENT_ID}, NEW.org_id, NEW.app_uuid, record.type, NEW.at_ms, ${DATA}
		  FROM (SELECT ${RECORD_TYPE} AS type) AS record WHERE EXISTS (SELECT 1 FROM webhooks w, json_each(w.events)
		    WHERE w.org_id = NEW.org_id AND w.disabled_at_ms IS NULL AND value = ${TABLE_OF_TYPE("record.type")});
		END`,
	webhook_deliveries_of_event: `AFTER INSERT ON webhook_events
		WHEN NEW.type <> '${TEST_EVENT}'
		BEGIN
		  INSERT INTO webhook_deliveries (id, org_id, webhook_id, event_id, state, next_attempt_at_ms, created_at_ms)
		  SELECT lower(hex(randomblob(16))), NEW.org_id, w.id, NEW.id, 'pending', NEW.at_ms, NEW.at_ms FROM webhooks w
		  WHERE w.org_id = NEW.org_id AND w.disabled_at_ms IS NULL AND (w.app_id IS NULL OR w.app_id = NEW.app_id)
		    AND (w.events = '[]' AND NOT ${IS_RECORD_EVENT} OR EXISTS (SELECT 1 FROM json_each(w.events)
		      WHERE value = CASE WHEN ${IS_RECORD_EVENT} THEN ${TABLE_OF_TYPE("NEW.type")} ELSE NEW.type END));
		END`,
};
