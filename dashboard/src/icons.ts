/**
 * The icons of the dashboard: the allowed set of one family (Tabler, outline, MIT). Screens import
 * from here only, and draw them with `Icon`, which sets size and stroke and hides them from screen
 * readers. Each is imported by its file: the package's index names five thousand, which would slow
 * every build.
 */
import type { ComponentType, SVGProps } from "react";

export type IconDrawing = ComponentType<SVGProps<SVGSVGElement>>;

export { default as IconAdjustmentsHorizontal } from "@tabler/icons-react/dist/esm/icons/IconAdjustmentsHorizontal.mjs";
export { default as IconAlertTriangle } from "@tabler/icons-react/dist/esm/icons/IconAlertTriangle.mjs";
export { default as IconApps } from "@tabler/icons-react/dist/esm/icons/IconApps.mjs";
export { default as IconArrowBackUp } from "@tabler/icons-react/dist/esm/icons/IconArrowBackUp.mjs";
export { default as IconArrowDown } from "@tabler/icons-react/dist/esm/icons/IconArrowDown.mjs";
export { default as IconArrowUp } from "@tabler/icons-react/dist/esm/icons/IconArrowUp.mjs";
export { default as IconBolt } from "@tabler/icons-react/dist/esm/icons/IconBolt.mjs";
export { default as IconBook } from "@tabler/icons-react/dist/esm/icons/IconBook.mjs";
export { default as IconBookmark } from "@tabler/icons-react/dist/esm/icons/IconBookmark.mjs";
export { default as IconBox } from "@tabler/icons-react/dist/esm/icons/IconBox.mjs";
export { default as IconBrandGithub } from "@tabler/icons-react/dist/esm/icons/IconBrandGithub.mjs";
export { default as IconBrandGitlab } from "@tabler/icons-react/dist/esm/icons/IconBrandGitlab.mjs";
export { default as IconBug } from "@tabler/icons-react/dist/esm/icons/IconBug.mjs";
export { default as IconChartLine } from "@tabler/icons-react/dist/esm/icons/IconChartLine.mjs";
export { default as IconCheck } from "@tabler/icons-react/dist/esm/icons/IconCheck.mjs";
export { default as IconChevronRight } from "@tabler/icons-react/dist/esm/icons/IconChevronRight.mjs";
export { default as IconCircleCheck } from "@tabler/icons-react/dist/esm/icons/IconCircleCheck.mjs";
export { default as IconClock } from "@tabler/icons-react/dist/esm/icons/IconClock.mjs";
export { default as IconCloudOff } from "@tabler/icons-react/dist/esm/icons/IconCloudOff.mjs";
export { default as IconCopy } from "@tabler/icons-react/dist/esm/icons/IconCopy.mjs";
export { default as IconDeviceDesktop } from "@tabler/icons-react/dist/esm/icons/IconDeviceDesktop.mjs";
export { default as IconDeviceMobile } from "@tabler/icons-react/dist/esm/icons/IconDeviceMobile.mjs";
export { default as IconDots } from "@tabler/icons-react/dist/esm/icons/IconDots.mjs";
export { default as IconDotsVertical } from "@tabler/icons-react/dist/esm/icons/IconDotsVertical.mjs";
export { default as IconDownload } from "@tabler/icons-react/dist/esm/icons/IconDownload.mjs";
export { default as IconExternalLink } from "@tabler/icons-react/dist/esm/icons/IconExternalLink.mjs";
export { default as IconGitBranch } from "@tabler/icons-react/dist/esm/icons/IconGitBranch.mjs";
export { default as IconGitCommit } from "@tabler/icons-react/dist/esm/icons/IconGitCommit.mjs";
export { default as IconGitCompare } from "@tabler/icons-react/dist/esm/icons/IconGitCompare.mjs";
export { default as IconGitPullRequest } from "@tabler/icons-react/dist/esm/icons/IconGitPullRequest.mjs";
export { default as IconHistory } from "@tabler/icons-react/dist/esm/icons/IconHistory.mjs";
export { default as IconInfoCircle } from "@tabler/icons-react/dist/esm/icons/IconInfoCircle.mjs";
export { default as IconKey } from "@tabler/icons-react/dist/esm/icons/IconKey.mjs";
export { default as IconKeyboard } from "@tabler/icons-react/dist/esm/icons/IconKeyboard.mjs";
export { default as IconLink } from "@tabler/icons-react/dist/esm/icons/IconLink.mjs";
export { default as IconListCheck } from "@tabler/icons-react/dist/esm/icons/IconListCheck.mjs";
export { default as IconLogout } from "@tabler/icons-react/dist/esm/icons/IconLogout.mjs";
export { default as IconMoon } from "@tabler/icons-react/dist/esm/icons/IconMoon.mjs";
export { default as IconPencil } from "@tabler/icons-react/dist/esm/icons/IconPencil.mjs";
export { default as IconPlayerPause } from "@tabler/icons-react/dist/esm/icons/IconPlayerPause.mjs";
export { default as IconPlayerPlay } from "@tabler/icons-react/dist/esm/icons/IconPlayerPlay.mjs";
export { default as IconPlus } from "@tabler/icons-react/dist/esm/icons/IconPlus.mjs";
export { default as IconRefresh } from "@tabler/icons-react/dist/esm/icons/IconRefresh.mjs";
export { default as IconRocket } from "@tabler/icons-react/dist/esm/icons/IconRocket.mjs";
export { default as IconSearch } from "@tabler/icons-react/dist/esm/icons/IconSearch.mjs";
export { default as IconSelector } from "@tabler/icons-react/dist/esm/icons/IconSelector.mjs";
export { default as IconSettings } from "@tabler/icons-react/dist/esm/icons/IconSettings.mjs";
export { default as IconSun } from "@tabler/icons-react/dist/esm/icons/IconSun.mjs";
export { default as IconTrash } from "@tabler/icons-react/dist/esm/icons/IconTrash.mjs";
export { default as IconUpload } from "@tabler/icons-react/dist/esm/icons/IconUpload.mjs";
export { default as IconUser } from "@tabler/icons-react/dist/esm/icons/IconUser.mjs";
export { default as IconUserPlus } from "@tabler/icons-react/dist/esm/icons/IconUserPlus.mjs";
export { default as IconUsers } from "@tabler/icons-react/dist/esm/icons/IconUsers.mjs";
export { default as IconWifiOff } from "@tabler/icons-react/dist/esm/icons/IconWifiOff.mjs";
export { default as IconX } from "@tabler/icons-react/dist/esm/icons/IconX.mjs";
