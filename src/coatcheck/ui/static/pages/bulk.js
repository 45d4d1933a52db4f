// Bulk operations on all matching jobs: they are counted, the user confirms, and then they
// are processed a thousand at a time.

import { post } from "../api.js";
import { confirm, say } from "../messages.js";
import { may, mayForAll } from "../session.js";
import { html, useState } from "../view.js";
import { count, plural } from "../format.js";

const DEEDS = [
  { name: "Cancel", past: "cancelled", call: "/v1/cancellations", scope: "jobs:cancel", states: ["queued", "running", "waiting"] },
  { name: "Resume", past: "resumed", call: "/v1/resumptions", scope: "jobs:write", states: ["failed", "cancelled"] },
  { name: "Delete", past: "deleted", call: "/v1/deletions", scope: "jobs:write", states: ["succeeded", "failed", "cancelled"], danger: true },
];
const MOST_COUNTED = 20_000;

const bodyOf = ({ state, kind, queue, label, created_after: from, created_before: to }) => ({
  state,
  ...(kind && { kind }),
  ...(queue && { queue }),
  ...(label.length && { labels: Object.fromEntries(label.map((text) => [text.slice(0, text.indexOf(":")), text.slice(text.indexOf(":") + 1)])) }),
  ...(from && { created_after: from }),
  ...(to && { created_before: to }),
});

// Repeats a request for all its pages; `tell` gets the number of jobs so far.
const through = async (call, body, tell, most = Infinity) => {
  let jobs = 0;
  let cursor = null;
  do {
    const page = await post(call, { ...body, ...(cursor && { cursor }) });
    jobs += page.jobs;
    cursor = page.next_cursor;
    tell(jobs);
  } while (cursor && jobs < most);
  return { jobs, more: cursor !== null };
};

export const Bulk = ({ filters, hidden, done }) => {
  const [busy, setBusy] = useState("");
  const allowed = (scope) => (filters.kind ? may(scope, filters.kind) : mayForAll(scope));
  const deeds = DEEDS.filter(({ states, scope }) => states.includes(filters.state) && allowed(scope));
  if (hidden || !deeds.length) return null;
  const run = async ({ name, past, call, danger }) => {
    const body = bodyOf(filters);
    try {
      setBusy("Counting …");
      const found = await through(call, { ...body, dry_run: true }, () => {}, MOST_COUNTED);
      setBusy("");
      const number = found.more ? `${count(found.jobs)} or more` : count(found.jobs);
      if (!found.jobs) return say("No job matches any more.");
      const yes = await confirm({
        title: `${name} ${number} ${found.jobs === 1 ? "job" : "jobs"}?`,
        text: `All ${filters.state} jobs that match these filters, on all pages.`,
        yes: `${name} ${number}`,
        danger,
      });
      if (!yes) return;
      const result = await through(call, body, (jobs) => setBusy(`${count(jobs)} ${past} …`));
      say(`${plural(result.jobs, "job")} ${past}.`);
    } catch (error) {
      say(error.message, "bad");
    } finally {
      setBusy("");
      done();
    }
  };
  return html`
    <div class="actions" role="group" aria-label="All matching jobs">
      <span class="quiet">All ${filters.state} jobs that match:</span>
      ${deeds.map((deed) => html`
        <button type="button" class=${`small ${deed.danger ? "danger" : ""}`} disabled=${busy !== ""} onClick=${() => run(deed)}>
          ${deed.name} …
        </button>`)}
      ${busy ? html`<span role="status" class="quiet">${busy}</span>` : null}
    </div>
  `;
};
