// Icons, drawn in the color of the surrounding text.

import { html } from "../view.js";

const PATHS = {
  overview: "M3 12h4l3-8 4 16 3-8h4",
  jobs: "M4 6h16M4 12h16M4 18h10",
  schedules: "M12 7v5l3 2M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18",
  webhooks: "M9 15l6-6M10 6.500l1.500-1.500a4.600 4.600 0 0 1 6.500 6.500L16.500 13M7.500 11 6 12.500a4.600 4.600 0 0 0 6.500 6.500l1.500-1.500",
  keys: "M14.500 9.500a4.500 4.500 0 1 0-3.200 4.300L13 15.500h2V18h2.500v2.500H21V17l-6.800-6.300a4.500 4.500 0 0 0 .3-1.200M8.500 8.500h.010",
  audit: "M6 3h9l4 4v14H6zM14.500 3v4.500H19M9 12h7M9 16h5",
  collections: "M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zM5 17a3 3 0 0 1 3-3h11M9 8h6",
  try: "M6 4l14 8-14 8z",
  light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2.500v2M12 19.500v2M2.500 12h2M19.500 12h2M5.300 5.300l1.400 1.400M17.300 17.300l1.400 1.400M5.300 18.700l1.400-1.400M17.300 6.700l1.400-1.400",
  dark: "M20 14.500A8.500 8.500 0 0 1 9.500 4a8.500 8.500 0 1 0 10.500 10.500",
  system: "M3 5h18v11H3zM9 20h6M12 16v4",
  leave: "M14 4h5v16h-5M10 8l-4 4 4 4M6 12h9",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  download: "M12 4v11M7.500 11l4.500 4.500 4.500-4.500M4 20h16",
  fork: "M7 5v14M7 12h6a4 4 0 0 0 4-4V5M5 5h4M15 5h4M5 19h4",
  search: "M10.500 4a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13M15.500 15.500 20 20",
};

export const Icon = ({ name }) => html`
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" fill="none" stroke="currentColor"
    stroke-width="1.700" stroke-linecap="round" stroke-linejoin="round">
    <path d=${PATHS[name]} />
  </svg>
`;

export const Mark = () => html`
  <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
    <rect class="mark-ground" x="1" y="1" width="22" height="22" rx="6" />
    <path class="mark-line" fill="none" stroke-width="1.700" stroke-linecap="round" stroke-linejoin="round"
      d="M9.800 8a2.100 2.100 0 1 1 3 1.900c-.6.300-.8.700-.8 1.400l7 4.300c.9.600.5 2-.6 2H5.600c-1.100 0-1.500-1.400-.6-2l7-4.300" />
  </svg>
`;
