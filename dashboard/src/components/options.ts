/** Options of a choice, from a table of labels. */

/** @param labels by value, in the order of the form */
export const optionsOf = (labels: Readonly<Record<string, string>>) =>
	Object.entries(labels).map(([value, label]) => ({ value, label }));
