// The steps of a job; each can be forked from.

import { get, post } from "../api.js";
import { Icon } from "../parts/icons.js";
import { Payload } from "../parts/payload.js";
import { Panel, State } from "../parts/small.js";
import { Table } from "../parts/table.js";
import { go, to } from "../router.js";
import { attempt, confirm } from "../messages.js";
import { may } from "../session.js";
import { html, useState } from "../view.js";
import { count, span } from "../format.js";

const SHOWN_AT_FIRST = 50;

const Outcome = ({ job, step }) => {
  const [value, setValue] = useState(undefined);
  if (step.op === "child" && typeof step.result === "string") {
    return html`<a class="mono" href=${to("jobs", step.result)}>${step.result}</a>`;
  }
  if (step.error) return html`<span class="bad-text">${step.error.message}</span>`;
  if (step.result_omitted && value === undefined) {
    const read = async () => setValue(await get(`/v1/jobs/${encodeURIComponent(job.id)}/steps/${step.seq}/result`));
    return html`<button type="button" class="small" onClick=${() => attempt(read)}>Show</button>`;
  }
  const shown = step.result_omitted ? value : step.result;
  if (shown === undefined || shown === null) return html`<span class="quiet">–</span>`;
  const text = JSON.stringify(shown);
  if (text.length <= 60) return html`<code>${text}</code>`;
  return html`<details><summary><code>${text.slice(0, 48)}…</code></summary><${Payload} value=${shown} label=${`the result of ${step.name}`} /></details>`;
};

export const Steps = ({ job, steps }) => {
  const [all, setAll] = useState(false);
  if (!steps.length) return null;
  const fork = async (index, step) => {
    const yes = await confirm({
      title: `Fork from ${step.name}?`, yes: "Fork",
      text: "A new job starts with the checkpoints before this step and runs it again.",
    });
    if (!yes) return;
    const path = `/v1/jobs/${encodeURIComponent(job.id)}/fork`;
    await attempt(async () => go(to("jobs", (await post(path, { from_step: index })).id)), "The fork is submitted.");
  };
  const rows = steps.map((step, index) => ({ ...step, index })).slice(0, all ? undefined : SHOWN_AT_FIRST);
  const columns = [
    { name: "#", kind: "number quiet away", cell: ({ index }) => index },
    { name: "Step", kind: "whole", cell: ({ name, key, op }) => html`
      ${name}${key ? html` <span class="chip">${key}</span>` : null}${op === "step" ? null : html` <span class="chip">${op}</span>`}` },
    { name: "State", cell: ({ state }) => html`<${State} state=${state} />` },
    { name: "Attempts", kind: "number named", cell: ({ attempts }) => count(attempts) },
    { name: "Duration", kind: "number named", cell: ({ started_at: from, finished_at: till }) =>
      till ? span(new Date(till) - new Date(from)) : html`<span class="quiet">–</span>` },
    { name: "Result", kind: "whole", cell: (step) => html`<${Outcome} job=${job} step=${step} />` },
    { name: "", kind: "tools", cell: (step) => may("jobs:write", job.kind) ? html`
      <button type="button" class="small" onClick=${() => fork(step.index, step)} aria-label=${`Fork from ${step.name}`} title=${`Fork from ${step.name}`}>
        <${Icon} name="fork" />Fork
      </button>` : null },
  ];
  return html`
    <${Panel} title=${`Steps (${count(steps.length)})`} flush>
      <div class="as-list"><${Table} caption="Steps" columns=${columns} rows=${rows} keyOf=${({ seq }) => seq} /></div>
      ${steps.length > rows.length
        ? html`<div class="pager"><button type="button" onClick=${() => setAll(true)}>Show all ${count(steps.length)}</button></div>` : null}
    <//>
  `;
};
