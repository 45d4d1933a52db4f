// Who is here: the key, what the server says it is good for, and whose jobs are looked at.
//
// The key is in this tab's session storage and goes out as a header. There is no cookie, so no page
// of another origin can have the browser send it.

import { makeStore } from "./store.js";

const KEY = "coatcheck.key";
const TENANT = "coatcheck.tenant";

export const key = makeStore(sessionStorage.getItem(KEY));
// What GET /v1/server answered; null until it has.
export const server = makeStore(null);
// Whose jobs an operator looks at; empty for their own.
export const tenant = makeStore(sessionStorage.getItem(TENANT) ?? "");
// Whether the last request was answered.
export const reachable = makeStore(true);

export const logIn = (text) => {
  sessionStorage.setItem(KEY, text);
  key.set(text);
};

export const logOut = () => {
  sessionStorage.removeItem(KEY);
  sessionStorage.removeItem(TENANT);
  tenant.set("");
  server.set(null);
  key.set(null);
};

export const lookAt = (name) => {
  const own = server.get()?.caller.tenant;
  const other = name === own ? "" : name;
  sessionStorage.setItem(TENANT, other);
  tenant.set(other);
};

const scopes = () => server.get()?.caller.scopes ?? [];

// Whether the key is good for something, of this kind of job or of any.
export const may = (scope, kind) =>
  scopes().some(
    (has) =>
      has === "admin" ||
      has === scope ||
      (kind === undefined ? has.startsWith(`${scope}:`) : has === `${scope}:${kind}`),
  );

// Whether the key is good for something, of all kinds: what is about the jobs of any asks for that.
export const mayForAll = (scope) => kindsFor(scope) === null;

export const isOperator = () => server.get()?.caller.operator ?? false;

// The kinds a scope is limited to; null where it is for all.
export const kindsFor = (scope) => {
  if (scopes().some((has) => has === "admin" || has === scope)) return null;
  return scopes()
    .filter((has) => has.startsWith(`${scope}:`))
    .map((has) => has.slice(scope.length + 1));
};
