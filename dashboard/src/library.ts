/**
 * The component library in the design language, as far as its variables (library.css) do not reach:
 * which colours a variant has. `filled` is the one primary button of a screen, `default` the
 * others, `danger` opens a confirmation, and red `filled` is the confirmation itself.
 */
import { createTheme, type VariantColorsResolver } from "@mantine/core";

interface Tone {
	readonly ground: string;
	readonly text: string;
}
const tone = (name: string): Tone => ({ ground: `var(--${name}-soft)`, text: `var(--${name})` });
const INFORMATION = tone("accent");
const TONES: Readonly<Record<string, Tone>> = {
	green: tone("ok"),
	orange: tone("warn"),
	red: tone("bad"),
	violet: tone("preview"),
	gray: { ground: "var(--sunken)", text: "var(--text-2)" },
};

const colors: VariantColorsResolver = ({ variant, color = "" }) => {
	const { ground, text } = TONES[color] ?? INFORMATION;
	const none = "1px solid transparent";
	switch (variant) {
		case "filled":
			return color === "red"
				? { background: "var(--danger)", hover: "var(--danger-hover)", color: "#ffffff", border: none }
				: { background: "var(--primary)", hover: "var(--primary-hover)", color: "var(--on-primary)", border: none };
		case "danger":
			return {
				background: "var(--surface)",
				hover: "var(--bad-soft)",
				color: "var(--bad)",
				border: "1px solid var(--line-strong)",
			};
		case "subtle":
			return {
				background: "transparent",
				hover: "var(--hover)",
				color: color === "red" ? "var(--bad)" : "var(--text-2)",
				border: none,
			};
		case "light":
			return { background: ground, hover: ground, color: text, border: none };
		default:
			return {
				background: "var(--surface)",
				hover: "var(--hover)",
				color: "var(--text)",
				border: "1px solid var(--line-strong)",
			};
	}
};

const design = createTheme({
	variantColorResolver: colors,
	components: {
		// Locking the scroll would insert a style element; library.css does it instead.
		Modal: { defaultProps: { lockScroll: false, closeButtonProps: { "aria-label": "Close" } } },
		Drawer: { defaultProps: { lockScroll: false, closeButtonProps: { "aria-label": "Close" } } },
	},
});

const OFFLINE = "You are offline. This works when the network is back.";

/**
 * Without a network no button can change anything, so all of them are disabled with the reason,
 * except those that say otherwise, such as Cancel. A default of the library covers buttons that
 * nobody thought of.
 */
export const themeOf = (isOnline: boolean) =>
	isOnline
		? design
		: createTheme({
				...design,
				components: { ...design.components, Button: { defaultProps: { disabled: true, title: OFFLINE } } },
			});
