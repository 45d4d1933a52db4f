// Where the reader is: behind the # of the address, so that a link to a page is a link to /ui.

import { makeStore, useStore } from "./store.js";

const read = () => {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { parts, query: new URLSearchParams(query) };
};

const route = makeStore(read());
addEventListener("hashchange", () => route.set(read()));

export const useRoute = () => useStore(route);

export const to = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export const go = (address) => {
  location.hash = address;
};

// Changes the query of the page, and leaves no trace in the history.
export const setQuery = (values) => {
  const query = new URLSearchParams(route.get().query);
  for (const [name, value] of Object.entries(values)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  history.replaceState(null, "", `${to(...route.get().parts)}${text ? `?${text}` : ""}`);
  route.set(read());
};
