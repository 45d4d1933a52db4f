// What every page is written with. Whatever is put into a template is text or an attribute, never
// markup: preact creates nodes and sets properties, and the page's policy refuses anything else.

import htm from "./vendor/htm.js";
import { Fragment, createContext, h, render } from "./vendor/preact.js";

export { useCallback, useContext, useEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export { Fragment, createContext, render };
export const html = htm.bind(h);

// Joins the names of classes, without those that do not apply.
export const classes = (...names) => names.filter(Boolean).join(" ");
