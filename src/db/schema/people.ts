/**
 * Accounts, organizations, API keys with their roles, and trusted publishers. `schema.sql` explains
 * the columns.
 */
import type { Generated } from "kysely";
import type { ScopeType } from "../../authz/permissions";
import type { Flag } from "../../authz/principal";
import type { PublisherStage } from "../../domain/ci/context";

export interface UsersTable {
	id: string;
	email: string;
	created_at_ms: number;
	global_permissions: Generated<string>;
	email_verified_at_ms: number | null;
}

export interface SessionsTable {
	id: string;
	user_id: string;
	token_hash: string;
	method: string;
	user_agent: string | null;
	ip_address: string | null;
	created_at_ms: number;
	last_seen_at_ms: number;
	expires_at_ms: number;
}

export type AttemptKind = "code" | "email" | "passkey" | "passkey_registration";

export interface SignInAttemptsTable {
	token_hash: string;
	kind: AttemptKind;
	user_id: string | null;
	email: string | null;
	secret: string;
	failed_tries: Generated<number>;
	created_at_ms: number;
	expires_at_ms: number;
	asked_by: string | null;
}

export interface SignInLinksTable {
	token_hash: string;
	user_id: string;
	created_at_ms: number;
	expires_at_ms: number;
	proves_email: Generated<Flag>;
}

export interface PasskeysTable {
	id: string;
	user_id: string;
	credential_id: string;
	public_key: string;
	counter: number;
	transports: string;
	name: string;
	created_at_ms: number;
	last_used_at_ms: number | null;
}

export interface IdentitiesTable {
	provider: string;
	subject: string;
	user_id: string;
	created_at_ms: number;
}

export interface AccountLogTable {
	id: Generated<number>;
	user_id: string;
	at_ms: number;
	action: string;
	details: Generated<string>;
	request_id: string;
	ip_address: string | null;
	user_agent: string | null;
}

export interface OrganizationsTable {
	id: string;
	name: string;
	logo: string | null;
	website: string | null;
	management_email: string | null;
	created_by: string;
	created_at_ms: number;
	updated_at_ms: number;
	enforce_hashed_api_keys: Generated<Flag>;
	require_apikey_expiration: Generated<Flag>;
	max_apikey_expiration_days: number | null;
	deleted_at_ms: number | null;
	require_signed_bundles: Generated<Flag>;
	app_count: Generated<number>;
	storage_bytes: Generated<number>;
	api_key_count: Generated<number>;
}

export interface SigningKeysTable {
	id: string;
	org_id: string;
	name: string;
	public_key: string;
	fingerprint: string;
	created_at_ms: number;
}

export interface InstallationTable {
	id: number;
	first_user_id: string | null;
	first_org_id: string | null;
}

export interface ApiKeysTable {
	id: string;
	org_id: string;
	user_id: string;
	name: string;
	key_hash: string;
	key_ciphertext: string | null;
	key_hint: string;
	global_permissions: Generated<string>;
	expires_at_ms: number | null;
	last_used_at_ms: number | null;
	created_at_ms: number;
	updated_at_ms: number;
	previous_key_hash: string | null;
	previous_valid_until_ms: number | null;
	ip_allow_list: string | null;
}

export interface ApiKeyRevealsTable {
	api_key_id: string;
	user_id: string;
	at_ms: number;
}

export interface PublishersTable {
	id: string;
	app_id: string;
	api_key_id: string;
	name: string;
	provider: string;
	issuer: string;
	stage: PublisherStage;
	claims: string;
	anchor: string;
	owner_anchor: string | null;
	channels: string | null;
	once_per_run: Generated<Flag>;
	created_by: string;
	expires_at_ms: number | null;
	last_used_at_ms: number | null;
	last_ci: string | null;
	created_at_ms: number;
	updated_at_ms: number;
}

export interface CiKeysTable {
	key_hash: string;
	publisher_id: string;
	ci: string;
	created_at_ms: number;
	expires_at_ms: number;
	is_limited: Generated<Flag>;
	repository: string | null;
	number: number | null;
	branch: string | null;
}

export interface SpentIdentityTokensTable {
	hash: string;
	expires_at_ms: number;
}

export interface IdempotencyKeysTable {
	id: string;
	request_hash: string;
	sealed_answer: string | null;
	created_at_ms: number;
}

export interface IssuerKeysTable {
	issuer: string;
	keys: string | null;
	fetched_at_ms: number | null;
	attempted_at_ms: number;
}

export interface InvitationsTable {
	id: string;
	org_id: string;
	email: string;
	role_name: string;
	token_hash: string;
	invited_by: string;
	note: string | null;
	expires_at_ms: number;
	created_at_ms: number;
}

export interface CustomRolesTable {
	org_id: string;
	name: string;
	title: string;
	description: string;
	scope_type: "org" | "app" | "channel";
	/** JSON array. */
	permissions: string;
	created_at_ms: number;
	updated_at_ms: number;
}

export interface RoleBindingsTable {
	id: string;
	api_key_id: string | null;
	user_id: string | null;
	role_name: string;
	scope_type: ScopeType;
	org_id: string;
	app_id: string | null;
	channel_id: number | null;
	parent_binding_id: string | null;
	expires_at_ms: number | null;
	created_at_ms: number;
	is_foreign: Generated<Flag>;
}

export interface GroupsTable {
	id: string;
	org_id: string;
	/** Unique in the organization. */
	name: string;
	description: string;
	created_at_ms: number;
	/** Grows with each change of the group, its members and its roles. */
	updated_at_ms: number;
}

export interface GroupMembersTable {
	group_id: string;
	user_id: string;
	added_at_ms: number;
}

export interface GroupBindingsTable {
	id: string;
	group_id: string;
	org_id: string;
	role_name: string;
	scope_type: "app" | "channel";
	app_id: string;
	channel_id: number | null;
	created_at_ms: number;
}

export interface AuditLogTable {
	id: Generated<number>;
	org_id: string;
	at_ms: number;
	actor_type: "api_key" | "user" | "system";
	actor_id: string | null;
	actor_name: string;
	action: string;
	target_type: string;
	target_id: string;
	details: Generated<string>;
	request_id: string;
	ip_address: string | null;
	target_name: string | null;
	before: string | null;
	after: string | null;
	app_uuid: string | null;
	app_id: string | null;
}
