// The filters of the job list. The store has an index for every filter, so a million jobs are
// as fast to search as a hundred. The text field is therefore
// interpreted as one of:
//
//   name:value   a label
//   a kind       its name, or an unambiguous prefix of it
//   an id        complete (the job is opened), or a prefix: ids start with their creation time

import { kindsFor } from "../session.js";

const LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TIME_LETTERS = 10;
const ID_LETTERS = 26;

export const STATES = ["queued", "running", "waiting", "succeeded", "failed", "cancelled"];

// The creation times of ids with this prefix, as [from, to) in milliseconds.
export const timesOf = (beginning) => {
  const letters = beginning.toUpperCase().slice(0, TIME_LETTERS);
  const value = (text) => [...text].reduce((sum, letter) => sum * 32 + LETTERS.indexOf(letter), 0);
  const unit = 32 ** (TIME_LETTERS - letters.length);
  const from = value(letters) * unit;
  return [from, from + unit];
};

export const looksLikeAnId = (text) =>
  text.length >= 6 && text.length <= ID_LETTERS && /^0[0-9a-hjkmnp-tv-z]+$/i.test(text);

// Converts the query of the page to the parameters of GET /v1/jobs.
export const readFilters = (query, kinds) => {
  const text = (query.get("text") ?? "").trim();
  const filters = {
    state: query.get("state") ?? "",
    kind: query.get("kind") ?? "",
    queue: query.get("queue") ?? "",
    label: [],
    created_after: asTime(query.get("from")),
    created_before: asTime(query.get("to")),
  };
  let note = "";
  if (text.includes(":")) {
    filters.label = [text];
    note = "jobs with this label";
  } else if (text) {
    const named = kinds.filter((kind) => kind.startsWith(text));
    if (kinds.includes(text) || named.length === 1) {
      filters.kind = kinds.includes(text) ? text : named[0];
      note = `jobs of the kind ${filters.kind}`;
    } else if (looksLikeAnId(text)) {
      const [from, to] = timesOf(text);
      filters.created_after = new Date(from).toISOString();
      filters.created_before = new Date(Math.min(to, 8.64e15)).toISOString();
      filters.beginning = text.toUpperCase();
      note = "jobs whose id starts with this";
    } else if (named.length) {
      note = `several kinds start with this: ${named.slice(0, 5).join(", ")}`;
      filters.nothing = true;
    } else {
      note = "enter a kind, a label as name:value, or an id";
      filters.nothing = true;
    }
  }
  // A key that is limited to some kinds lists one kind at a time.
  const only = kindsFor("jobs:read");
  if (only && !only.includes(filters.kind)) filters.kind = only[0] ?? "";
  return { filters, note };
};

const asTime = (text) => {
  const time = text ? new Date(text) : null;
  return time && !Number.isNaN(time.getTime()) ? time.toISOString() : "";
};
