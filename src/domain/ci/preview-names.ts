/**
 * The form of the names of preview channels. Devices send a channel's name as `defaultChannel`, so
 * a name is a right over them: only a name of this form lets a preview serve devices that send it,
 * with any creator.
 */

/** The prefix of an app without one of its own. */
export const DEFAULT_PREVIEW_PREFIX = "pr-";

/**
 * More devices than this that send a preview's name are a fleet, not testers: the channel stops
 * serving by its name.
 */
export const MOST_DEVICES_BY_NAME = 20;

/**
 * A prefix ends at a separator, so that no ordinary name such as "stable" has the form by accident.
 */
export const PREVIEW_PREFIX = /^\w[\w.\-/@+ ]{0,62}[-_./]$/;

export const hasPreviewForm = (name: string, prefix: string): boolean =>
	name.length > prefix.length && name.startsWith(prefix);
