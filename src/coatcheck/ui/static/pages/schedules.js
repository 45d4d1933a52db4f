// Schedules: their ticks and last jobs.

import { get, post, put, remove } from "../api.js";
import { canSubmit, firstExample, useKinds } from "../kinds.js";
import { Curl } from "../parts/curl.js";
import { Dialog } from "../parts/dialog.js";
import { Empty, Failure, Panel, Time, Waiting } from "../parts/small.js";
import { Table } from "../parts/table.js";
import { usePolled } from "../polling.js";
import { go, to } from "../router.js";
import { attempt, confirm } from "../messages.js";
import { may, tenant } from "../session.js";
import { useStore } from "../store.js";
import { html, useState } from "../view.js";

const pathOf = ({ name }) => `/v1/schedules/${encodeURIComponent(name)}`;

const when = ({ cron, every_s: every, timezone }) =>
  cron ? html`<code>${cron}</code> <span class="quiet">${timezone}</span>` : `every ${every} s`;

const Ticks = ({ schedule }) => {
  const { value } = usePolled(() => get(`${pathOf(schedule)}/ticks?limit=5`), [schedule.name], 60000);
  return html`<ol class="because">${(value?.ticks ?? []).map((at) => html`<li><${Time} at=${at} how="clock" /> <span class="quiet"><${Time} at=${at} /></span></li>`)}</ol>`;
};

const NewSchedule = ({ kinds, onClose, done }) => {
  const [problem, setProblem] = useState(null);
  const make = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      const often = form.get("often").trim();
      const isNumber = /^\d+(\.\d+)?$/.test(often);
      await put(`/v1/schedules/${encodeURIComponent(form.get("name"))}`, {
        kind: form.get("kind"),
        input: JSON.parse(form.get("input") || "null"),
        ...(isNumber ? { every_s: Number(often) } : { cron: often, timezone: form.get("timezone") }),
      });
      done();
      onClose();
    } catch (error) {
      setProblem(error instanceof SyntaxError ? new Error(`The input is not JSON: ${error.message}`) : error);
    }
  };
  return html`
    <${Dialog} title="Create a schedule" onClose=${onClose}>
      <form class="form" onSubmit=${make}>
        <div class="form-row">
          <div class="field"><label for="s-name">Name</label><input id="s-name" name="name" required /></div>
          <div class="field"><label for="s-kind">Kind</label><select id="s-kind" name="kind">${kinds.map(({ name }) => html`<option>${name}</option>`)}</select></div>
        </div>
        <div class="form-row">
          <div class="field"><label for="s-often">When</label><input id="s-often" name="often" required placeholder="0 3 * * *  or  600" /><span class="hint">Five fields of cron, or seconds</span></div>
          <div class="field"><label for="s-zone">Time zone</label><input id="s-zone" name="timezone" defaultValue=${Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC"} /></div>
        </div>
        <div class="field"><label for="s-input">Input, as JSON</label><textarea id="s-input" name="input" spellcheck="false" placeholder="null"></textarea></div>
        <${Failure} error=${problem} />
        <div class="dialog-buttons"><button type="button" onClick=${onClose}>Cancel</button><button class="main" type="submit">Create</button></div>
      </form>
    <//>
  `;
};

const FirstSchedule = ({ kinds }) => {
  const found = firstExample(kinds);
  return found ? html`<${Curl} method="PUT" path="/v1/schedules/nightly" body=${{ ...found, cron: "0 3 * * *" }} />` : null;
};

export const Schedules = () => {
  const named = useStore(tenant);
  const { value, error, refresh } = usePolled(() => get("/v1/schedules?limit=200"), [named], 4000);
  const kinds = (useKinds().value?.kinds ?? []).filter(canSubmit);
  const [making, setMaking] = useState(false);
  const [opened, setOpened] = useState(null);
  const act = (schedule, verb, words) => attempt(() => post(`${pathOf(schedule)}/${verb}`), words).then(refresh);
  const trigger = (schedule) => attempt(async () => go(to("jobs", (await post(`${pathOf(schedule)}/trigger`)).id)), "The job is submitted.");
  const erase = async (schedule) => {
    const yes = await confirm({ title: `Delete the schedule ${schedule.name}?`, text: "Its jobs are kept.", yes: "Delete", danger: true });
    if (yes) await attempt(() => remove(pathOf(schedule)), "The schedule is deleted.").then(refresh);
  };
  const columns = [
    { name: "Schedule", kind: "whole", cell: (schedule) => html`
      <b>${schedule.name}</b> ${schedule.paused ? html`<span class="chip warn">paused</span>` : null}
      ${schedule.declared ? html`<span class="chip" title="Declared by an app, and changed there">declared</span>` : null}
      ${schedule.problem ? html`<p class="bad-text">${schedule.problem}</p>` : null}
      ${opened === schedule.name ? html`<${Ticks} schedule=${schedule} />` : null}` },
    { name: "Kind", cell: ({ kind }) => kind },
    { name: "When", kind: "whole", cell: when },
    { name: "Next", kind: "named", cell: ({ next_at: at, name }) => html`
      <button type="button" class="bare" aria-expanded=${opened === name} title="The next five ticks" onClick=${() => setOpened(opened === name ? null : name)}><${Time} at=${at} /></button>` },
    { name: "Last", kind: "named", cell: ({ last_at: at, last_job: job }) => job ? html`<a href=${to("jobs", job)}><${Time} at=${at} /></a>` : html`<span class="quiet">never</span>` },
    { name: "", kind: "tools", cell: (schedule) => may("jobs:write", schedule.kind) ? html`<span class="actions">
      <button type="button" class="small" onClick=${() => trigger(schedule)}>Run now</button>
      <button type="button" class="small" onClick=${() => schedule.paused ? act(schedule, "resume", "The schedule is resumed.") : act(schedule, "pause", "The schedule is paused.")}>${schedule.paused ? "Go on" : "Pause"}</button>
      ${schedule.declared ? null : html`<button type="button" class="small danger" onClick=${() => erase(schedule)}>Delete</button>`}</span>` : null },
  ];
  const rows = value?.schedules ?? [];
  return html`
    <div class="page-head"><h1>Schedules</h1><div class="actions">
      ${kinds.length ? html`<button type="button" class="main" onClick=${() => setMaking(true)}>Create schedule</button>` : null}
    </div></div>
    <${Failure} error=${value ? null : error} />
    ${!value && !error ? html`<${Waiting} />` : null}
    ${value ? html`<${Panel} flush label="Schedules">
      ${rows.length
        ? html`<div class="as-list"><${Table} caption="Schedules" columns=${columns} rows=${rows} keyOf=${({ name }) => name} /></div>`
        : html`<${Empty} title="No schedules yet">
            <p>A schedule submits one job at each tick, however many servers run:</p>
            <${FirstSchedule} kinds=${kinds} />
          <//>`}
    <//>` : null}
    ${making ? html`<${NewSchedule} kinds=${kinds} onClose=${() => setMaking(false)} done=${refresh} />` : null}
  `;
};
