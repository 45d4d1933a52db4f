// The children of a job, recursively.

import { get, withQuery } from "../api.js";
import { Panel, Progress, State, Time } from "../parts/small.js";
import { usePolled } from "../polling.js";
import { to } from "../router.js";
import { kindsFor } from "../session.js";
import { html, useState } from "../view.js";

const PAGE = 50;
const DEEPEST = 4;

// A key that is limited to some kinds lists one kind at a time.
const childrenOf = async (parent, limit) => {
  const kinds = kindsFor("jobs:read") ?? [""];
  const pages = await Promise.all(kinds.map((kind) => get(withQuery("/v1/jobs", { parent, kind, limit }))));
  const jobs = pages.flatMap((page) => page.jobs).sort((one, other) => (one.id < other.id ? 1 : -1));
  return { jobs: jobs.slice(0, limit), more: jobs.length > limit || pages.some((page) => page.next_cursor) };
};

const Branch = ({ parent, depth }) => {
  const { value } = usePolled(() => childrenOf(parent, PAGE), [parent], 4000);
  if (!value?.jobs.length) return depth ? html`<p class="quiet">None.</p>` : null;
  return html`
    <ul class="files">
      ${value.jobs.map((job) => html`<${Leaf} key=${job.id} job=${job} depth=${depth} />`)}
    </ul>
    ${value.more ? html`<p class="quiet">Only the newest ${PAGE} are shown.</p>` : null}
  `;
};

const Leaf = ({ job, depth }) => {
  const [open, setOpen] = useState(false);
  return html`
    <li>
      <a href=${to("jobs", job.id)}>${job.kind} <span class="mono quiet-link">${job.id.slice(-8)}</span></a>
      <${State} state=${job.state} reason=${job.reason} />
      ${job.state === "running" ? html`<${Progress} progress=${job.progress} />` : null}
      <span class="quiet"><${Time} at=${job.created_at} /></span>
      ${depth < DEEPEST ? html`<button type="button" class="small bare" aria-expanded=${open} onClick=${() => setOpen(!open)}>
        ${open ? "collapse" : "children"}</button>` : null}
    </li>
    ${open ? html`<li class="branch"><div><${Branch} parent=${job.id} depth=${depth + 1} /></div></li>` : null}
  `;
};

export const Children = ({ job }) => {
  const { value } = usePolled(() => childrenOf(job.id, 1), [job.id], 5000);
  if (!value?.jobs.length) return null;
  return html`<${Panel} title="Children"><${Branch} parent=${job.id} depth=${0} /><//>`;
};
