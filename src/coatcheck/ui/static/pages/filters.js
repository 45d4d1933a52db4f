// Which jobs are listed. Every filter is one that the store has an index for, so a million jobs are
// as quick to look through as a hundred. What is typed into the one field for text is therefore
// read as one of:
//
//   name:value   a label
//   a kind       its name, or the beginning of it where only one kind begins so
//   an id        all of it (it is opened), or its beginning: ids begin with the time they were made

import { kindsFor } from "../session.js";

const LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TIME_LETTERS = 10;
const ID_LETTERS = 26;

export const STATES = ["queued", "running", "waiting", "succeeded", "failed", "cancelled"];

// When jobs were made whose ids begin like this, as [from, to) in milliseconds.
export const timesOf = (beginning) => {
  const letters = beginning.toUpperCase().slice(0, TIME_LETTERS);
  const value = (text) => [...text].reduce((sum, letter) => sum * 32 + LETTERS.indexOf(letter), 0);
  const unit = 32 ** (TIME_LETTERS - letters.length);
  const from = value(letters) * unit;
  return [from, from + unit];
};

export const looksLikeAnId = (text) =>
  text.length >= 6 && text.length <= ID_LETTERS && /^0[0-9a-hjkmnp-tv-z]+$/i.test(text);

// What is said behind the # about the listing, read into the parameters of GET /v1/jobs.
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
      note = "jobs whose id begins like this";
    } else if (named.length) {
      note = `several kinds begin like this: ${named.slice(0, 5).join(", ")}`;
      filters.nothing = true;
    } else {
      note = "write a kind, a label as name:value, or an id";
      filters.nothing = true;
    }
  }
  // A key for some kinds lists one of them at a time.
  const only = kindsFor("jobs:read");
  if (only && !only.includes(filters.kind)) filters.kind = only[0] ?? "";
  return { filters, note };
};

const asTime = (text) => {
  const time = text ? new Date(text) : null;
  return time && !Number.isNaN(time.getTime()) ? time.toISOString() : "";
};
