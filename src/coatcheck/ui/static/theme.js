// Light or dark: as the system says, unless the reader says otherwise.

import { makeStore } from "./store.js";

const NAME = "coatcheck.theme";
const ORDER = ["system", "light", "dark"];

export const theme = makeStore(localStorage.getItem(NAME) ?? "system");

const apply = (name) => {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
};

export const nextTheme = () => {
  const next = ORDER[(ORDER.indexOf(theme.get()) + 1) % ORDER.length];
  localStorage.setItem(NAME, next);
  apply(next);
  theme.set(next);
};

// A colour of the style sheet, as it is now: for what is drawn on a canvas.
export const colour = (name) => {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};

apply(theme.get());
