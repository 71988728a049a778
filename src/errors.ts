/**
 * The error type of the service and the table of its codes. An ApiError has a code from this table;
 * any other error is answered as `internal_error`, and its message never leaves the log.
 */

/** Every error code, with its HTTP status. */
export const ERROR_STATUS = {
	invalid_request: 400,
	ambiguous_api_key: 400,
	conflicting_parameters: 400,
	checksum_mismatch: 400,
	size_mismatch: 400,
	external_url_rejected: 400,
	invalid_global_permissions: 400,
	hashed_api_key_required: 400,
	expiration_required: 400,
	expiration_exceeds_max: 400,
	preview_channel_must_be_private: 400,
	preview_version_must_be_prerelease: 400,
	channel_has_no_platform: 400,
	missing_rollout_version: 400,
	setting_not_supported: 400,
	missing_delta_files: 400,
	passkey_not_registered: 400,
	https_required: 400,
	missing_api_key: 401,
	invalid_api_key: 401,
	expired_api_key: 401,
	api_key_violates_policy: 401,
	invalid_session: 401,
	sign_in_failed: 401,
	sign_in_required: 401,
	invalid_identity_token: 401,
	permission_denied: 403,
	ip_address_not_allowed: 403,
	cannot_remove_higher_role: 403,
	cross_site_request: 403,
	session_required: 403,
	recent_sign_in_required: 403,
	passkey_required: 403,
	link_expired: 403,
	invalid_signature: 403,
	unknown_host: 421,
	no_matching_publisher: 403,
	not_found: 404,
	organization_not_found: 404,
	app_not_found: 404,
	channel_not_found: 404,
	release_not_found: 404,
	bundle_not_found: 404,
	device_not_found: 404,
	api_key_not_found: 404,
	member_not_found: 404,
	role_not_found: 404,
	group_not_found: 404,
	invitation_not_found: 404,
	session_not_found: 404,
	passkey_not_found: 404,
	sign_in_method_not_found: 404,
	upload_not_found: 404,
	signing_key_not_found: 404,
	webhook_not_found: 404,
	delivery_not_found: 404,
	preview_not_found: 404,
	preview_hook_not_found: 404,
	transfer_not_found: 404,
	binding_not_found: 404,
	publisher_not_found: 404,
	method_not_allowed: 405,
	app_id_already_exists: 409,
	quota_exceeded: 409,
	bundle_already_exists: 409,
	version_was_used: 409,
	bundle_already_ready: 409,
	bundle_in_use: 409,
	bundle_not_ready: 409,
	bundle_not_signed: 409,
	bundle_incompatible: 409,
	bundle_has_no_zip: 409,
	bundle_incomplete: 409,
	channel_zip_required: 409,
	channel_delta_required: 409,
	cannot_delete_own_api_key: 409,
	api_key_changed: 409,
	api_key_of_publisher: 409,
	identity_token_replayed: 409,
	idempotency_key_in_use: 409,
	publisher_changed: 409,
	already_member: 409,
	role_already_exists: 409,
	role_in_use: 409,
	role_changed: 409,
	group_already_exists: 409,
	group_changed: 409,
	passkey_already_registered: 409,
	email_not_available: 409,
	account_changed: 409,
	last_sign_in_method: 409,
	cannot_remove_last_super_admin: 409,
	policy_stops_every_admin_key: 409,
	channel_changed: 409,
	rollout_running: 409,
	channel_name_reserved: 409,
	preview_closed: 409,
	preview_changed: 409,
	bundle_from_preview: 409,
	bundle_of_another_preview: 409,
	channel_protected: 403,
	approval_required: 409,
	proposal_not_found: 404,
	proposal_not_pending: 409,
	proposal_outdated: 409,
	proposal_needs_another_person: 403,
	nothing_to_roll_back_to: 409,
	member_changed: 409,
	organization_changed: 409,
	invitation_changed: 409,
	signing_key_already_exists: 409,
	signing_key_limit_reached: 409,
	signing_key_required: 409,
	webhook_limit_reached: 409,
	webhook_changed: 409,
	webhook_disabled: 409,
	delivery_not_waiting: 409,
	webhook_has_no_secret: 409,
	upload_offset_conflict: 409,
	upload_in_progress: 409,
	bytes_lost: 410,
	length_required: 411,
	precondition_failed: 412,
	unsupported_tus_version: 412,
	payload_too_large: 413,
	unsupported_media_type: 415,
	range_not_satisfiable: 416,
	idempotency_key_reused: 422,
	bundle_invalid: 422,
	bundle_signature_invalid: 422,
	bundle_signature_required: 422,
	delta_hash_mismatch: 422,
	not_acceptable: 406,
	too_many_requests: 429,
	internal_error: 500,
	not_on_this_server: 501,
	service_unavailable: 503,
	issuer_unavailable: 503,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

/** Cases of one code that a screen tells apart; sent as `moreInfo.reason`. */
export const ERROR_REASONS = [
	"app_id_of_deleted_app",
	"app_id_taken_since",
	"sample_app_exists",
	"never_live_here",
	"may_only_propose",
	"rollout_changed",
	"channel_is_protected",
	"only_operator",
	"custom_role_limit",
	"older_than_rollout",
	"newer_than_rollout",
] as const;
export type ErrorReason = (typeof ERROR_REASONS)[number];

interface ApiErrorOptions {
	readonly reason?: ErrorReason;
	/**
	 * Machine-readable details, sent as `moreInfo`. Never a secret, never text of an unknown error.
	 */
	readonly moreInfo?: Record<string, unknown>;
	readonly headers?: Record<string, string>;
	/** For the log only. */
	readonly cause?: unknown;
	/** The account whose sign-in was refused; for the account log only. */
	readonly account?: RefusedAccount;
}

/** An account, or the hash of its sign-in attempt. */
export type RefusedAccount = { readonly userId: string } | { readonly attempt: string };

/** An error for the client. `message` says what is wrong, then what to do. */
export class ApiError extends Error {
	override readonly name = "ApiError";
	readonly code: ErrorCode;
	readonly status: number;
	readonly moreInfo: Record<string, unknown>;
	readonly headers: Record<string, string>;
	readonly account: RefusedAccount | undefined;

	constructor(code: ErrorCode, message: string, options: ApiErrorOptions = {}) {
		super(message, options.cause === undefined ? undefined : { cause: options.cause });
		this.code = code;
		this.status = ERROR_STATUS[code];
		this.moreInfo = { ...(options.reason === undefined ? {} : { reason: options.reason }), ...options.moreInfo };
		this.headers = { ...options.headers };
		this.account = options.account;
	}
}

/** The text of an error for the log; for an ApiError its cause, which the client does not get. */
export function causeText(error: unknown): string {
	const cause = error instanceof ApiError && error.cause !== undefined ? error.cause : error;
	return cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
}

/**
 * One invalid field; `path` is dotted from the root of the body or the query, such as
 * `bindings.0.app_id`.
 */
export interface RequestIssue {
	readonly path: string;
	readonly message: string;
	readonly received?: string;
}

/** 400 `invalid_request` that names every invalid field. */
export function invalidRequest(issues: readonly RequestIssue[]): ApiError {
	const first = issues[0];
	const message =
		first === undefined
			? "The request is not valid."
			: first.path === ""
				? first.message
				: `${first.path}: ${first.message}${issues.length > 1 ? ` (and ${issues.length - 1} more)` : ""}`;
	return new ApiError("invalid_request", message, { moreInfo: { issues } });
}

/** Seconds until a client should retry after a fault of a backing service. */
const RETRY_AFTER_SECONDS = 5;

/** 503 for a failing D1, R2 or Queue; `cause` goes to the log. */
export function serviceUnavailable(cause: unknown): ApiError {
	return new ApiError(
		"service_unavailable",
		"A storage service did not answer; try again after the seconds in Retry-After.",
		{
			headers: { "Retry-After": String(RETRY_AFTER_SECONDS) },
			moreInfo: { retryAfterSeconds: RETRY_AFTER_SECONDS },
			cause,
		},
	);
}

/** 503 for a request beyond what the service can do at once; nothing was done. */
export function overloaded(): ApiError {
	return new ApiError(
		"service_unavailable",
		"The service has more requests than it can answer now; try again after the seconds in Retry-After.",
		{
			headers: { "Retry-After": String(RETRY_AFTER_SECONDS) },
			moreInfo: { reason: OVERLOADED, retryAfterSeconds: RETRY_AFTER_SECONDS },
		},
	);
}

/** `moreInfo.reason` of such a refusal. */
const OVERLOADED = "overloaded";

/** No fault, and a line of the log for each one would cost more than the answer. */
export const isOverload = ({ moreInfo }: ApiError): boolean => moreInfo.reason === OVERLOADED;

/**
 * An error about one field of the request: `message` begins with its name, and `moreInfo.issues`
 * has it as data.
 */
export function fieldError(code: ErrorCode, path: string, message: string, options: ApiErrorOptions = {}): ApiError {
	const issues: readonly RequestIssue[] = [{ path, message }];
	return new ApiError(code, `${path}: ${message}`, { ...options, moreInfo: { issues, ...options.moreInfo } });
}
