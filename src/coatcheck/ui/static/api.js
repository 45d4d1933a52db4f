// Every request to the server: with the key, for the tenant that is looked at. What is refused is
// raised in the server's own words.

import { key, logOut, reachable, server, tenant } from "./session.js";

// These act for one tenant, which an operator may name.
const FOR_A_TENANT =
  /^\/v1\/(jobs|batches|resumptions|cancellations|deletions|schedules|webhooks|collections|documents|ingest)\b/;

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? problem.error ?? `the server answered ${status}`);
    this.status = status;
    this.problem = problem;
    this.errors = problem.errors ?? [];
  }
}

// Names the tenant that is looked at, where that is another than the reader's own.
export const addressed = (path) => {
  const named = tenant.get();
  if (!named || !FOR_A_TENANT.test(path)) return path;
  return `${path}${path.includes("?") ? "&" : "?"}tenant=${encodeURIComponent(named)}`;
};

const problemOf = async (answer) => {
  const text = await answer.text();
  try {
    return JSON.parse(text);
  } catch {
    return { detail: `the server answered ${answer.status}` };
  }
};

export const send = async (method, path, { body, headers = {}, signal } = {}) => {
  const sent = { Accept: "application/json", ...headers };
  if (key.get()) sent.Authorization = `Bearer ${key.get()}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(addressed(path), {
      method,
      headers: sent,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      credentials: "omit",
    });
  } catch (error) {
    if (error.name !== "AbortError") reachable.set(false);
    throw error;
  }
  reachable.set(true);
  if (answer.ok || answer.status === 304) return answer;
  const problem = await problemOf(answer);
  // The key is no longer valid: back to the sign-in page.
  if (answer.status === 401 && server.get()) logOut();
  throw new Refused(answer.status, problem);
};

export const get = async (path, options) => (await send("GET", path, options)).json();
export const post = async (path, body, options) =>
  (await send("POST", path, { ...options, body })).json();
export const put = async (path, body) => (await send("PUT", path, { body })).json();
export const remove = async (path) => {
  const answer = await send("DELETE", path);
  return answer.status === 204 ? null : answer.json();
};

export const getBlob = async (path, type) => {
  const answer = await send("GET", path, { headers: { Accept: "*/*" } });
  return new Blob([await answer.arrayBuffer()], { type: type ?? "application/octet-stream" });
};

// Puts query parameters behind a path, without those that say nothing.
export const withQuery = (path, values) => {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") query.append(name, each);
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
};
