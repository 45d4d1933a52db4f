// Overview: queues, throughput, workers and failing webhooks.

import { get, post, put, send } from "../api.js";
import { Chart } from "../parts/chart.js";
import { CommandLine, Empty, Failure, Panel, Time, Waiting } from "../parts/small.js";
import { Table } from "../parts/table.js";
import { useNow, usePolled } from "../polling.js";
import { to } from "../router.js";
import { attempt } from "../messages.js";
import { isOperator, lookAt } from "../session.js";
import { html, useMemo } from "../view.js";
import { count, span } from "../format.js";

const MINUTE = 60_000;

const look = async () => {
  const began = performance.now();
  const ready = send("GET", "/readyz").then(
    () => ({ ready: true, took: performance.now() - began }),
    (error) => ({ ready: false, why: error.message }),
  );
  const [queues, workers, throughput, webhooks, store] = await Promise.all([
    get("/v1/queues"), get("/v1/workers"), get("/v1/throughput"), get("/v1/webhooks?limit=200"), ready,
  ]);
  return {
    queues: queues.queues, workers: workers.workers, ended: throughput.ended, webhooks: webhooks.webhooks, store,
  };
};

// Every minute of the last hour, even if no job finished in it.
const byMinute = (ended) => {
  const last = Math.floor(Date.now() / MINUTE) * MINUTE;
  const minutes = new Map();
  for (let at = last - 59 * MINUTE; at <= last; at += MINUTE) minutes.set(at, { at, ended: 0, failed: 0 });
  for (const each of ended) {
    const minute = minutes.get(new Date(each.minute).getTime());
    if (!minute) continue;
    minute.ended += each.succeeded + each.failed + each.cancelled;
    minute.failed += each.failed;
  }
  return [...minutes.values()];
};

const byQueue = (ended) => {
  const queues = {};
  for (const each of ended) {
    const queue = (queues[each.queue] ??= { ended: 0, failed: 0 });
    queue.ended += each.succeeded + each.failed + each.cancelled;
    queue.failed += each.failed;
  }
  return queues;
};

const Tile = ({ name, value, note, tone }) => html`
  <div class=${`tile ${tone ?? ""}`}><dt>${name}</dt><dd>${value}${note ? html`<small>${note}</small>` : null}</dd></div>
`;

const Queues = ({ queues, ended, refresh }) => {
  const now = useNow(2000);
  const lately = byQueue(ended);
  const toggle = ({ name, paused }) =>
    attempt(() => post(`/v1/queues/${encodeURIComponent(name)}/${paused ? "resume" : "pause"}`),
      paused ? `${name} is resumed.` : `${name} is paused. Its running jobs continue.`).then(refresh);
  const limit = ({ name }, text) =>
    attempt(() => put(`/v1/queues/${encodeURIComponent(name)}`, { concurrency: text ? Number(text) : null }),
      text ? `${name} is limited to ${text} running jobs.` : `${name} has no limit.`).then(refresh);
  const columns = [
    { name: "Queue", kind: "whole", cell: (queue) => html`
      <a href=${`${to("jobs")}?queue=${encodeURIComponent(queue.name)}`}>${queue.name}</a>
      ${queue.paused ? html` <span class="chip warn">paused</span>` : null}` },
    { name: "Ready", kind: "number named", cell: ({ ready }) => count(ready) },
    { name: "Oldest", kind: "number named", cell: ({ oldest_ready_at: oldest }) =>
      oldest ? html`<span title=${oldest}>${span(now - new Date(oldest))}</span>` : html`<span class="quiet">–</span>` },
    { name: "Scheduled", kind: "number named", cell: ({ delayed }) => count(delayed) },
    { name: "Running", kind: "number named", cell: ({ running }) => count(running) },
    { name: "Finished, 1 h", kind: "number named", cell: ({ name }) => count(lately[name]?.ended ?? 0) },
    { name: "Failed, 1 h", kind: "number named", cell: ({ name }) => {
      const failed = lately[name]?.failed ?? 0;
      return html`<span class=${failed ? "bad-text" : "quiet"}>${count(failed)}</span>`;
    } },
    { name: "Limit", kind: "number away", cell: (queue) => html`
      <input class="limit" type="number" min="1" placeholder="no limit" aria-label=${`Limit of ${queue.name}`}
        key=${queue.concurrency} defaultValue=${queue.concurrency ?? ""} onChange=${(event) => limit(queue, event.target.value)} />` },
    { name: "", kind: "tools", cell: (queue) => html`
      <button type="button" class="small" onClick=${() => toggle(queue)}>${queue.paused ? "Resume" : "Pause"}</button>` },
  ];
  return html`<div class="as-list"><${Table} caption="Queues" columns=${columns} rows=${queues} keyOf=${({ name }) => name} /></div>`;
};

const Workers = ({ workers }) => {
  if (!workers.length) {
    return html`<${Empty} title="No workers">
      <p>Jobs stay queued until a worker starts:</p>
      <${CommandLine} text="coatcheck worker tasks:app" />
    <//>`;
  }
  const columns = [
    { name: "Worker", kind: "whole", cell: ({ id, host, pid, lost }) => html`
      <span title=${id}>${host}${pid ? html` <span class="quiet mono">${pid}</span>` : html` <span class="chip">over HTTP</span>`}</span>
      ${lost ? html` <span class="chip bad">lost</span>` : null}` },
    { name: "Busy", kind: "number", cell: ({ running, slots }) => html`
      <span class="slots"><progress value=${running} max=${Math.max(slots, 1)}></progress>${count(running)} of ${count(slots)}</span>` },
    { name: "Runs", kind: "whole", cell: ({ jobs, running }) => html`
      <span class="worker-jobs">
        ${jobs.slice(0, 6).map(({ id, kind, tenant, started_at: at }) => html`
          <a href=${to("jobs", id)} title=${id} onClick=${() => lookAt(tenant)}>${kind} <${Time} at=${at} /></a>`)}
        ${running > 6 ? html`<span class="quiet">and ${count(running - 6)} more</span>` : null}
        ${running ? null : html`<span class="quiet">nothing</span>`}
      </span>` },
    { name: "Started", kind: "number away", cell: ({ started_at: at }) => html`<${Time} at=${at} />` },
  ];
  return html`<div class="as-list"><${Table} caption="Workers" columns=${columns} rows=${workers} keyOf=${({ id }) => id} /></div>`;
};

export const Overview = () => {
  const { value, error, refresh } = usePolled(look, [], 3000);
  const minutes = useMemo(() => byMinute(value?.ended ?? []), [value]);
  if (!isOperator()) return null;
  if (!value) return html`<${Failure} error=${error} />${error ? null : html`<${Waiting} />`}`;
  const { queues, workers, ended, webhooks, store } = value;
  const sum = (name) => queues.reduce((total, queue) => total + queue[name], 0);
  const done = minutes.reduce((total, each) => total + each.ended, 0);
  const failed = minutes.reduce((total, each) => total + each.failed, 0);
  const failing = webhooks.filter((each) => each.failing_since || !each.enabled);
  const slots = workers.reduce((total, each) => total + each.slots, 0);
  return html`
    <div class="page-head"><h1>Overview</h1><div class="actions"><span class=${`live ${error ? "off" : ""}`}>live</span></div></div>
    <div class="stack">
      <dl class="tiles">
        <${Tile} name="Ready" value=${count(sum("ready"))} note=${sum("delayed") ? `${count(sum("delayed"))} scheduled` : ""} />
        <${Tile} name="Running" value=${count(sum("running"))} note=${`of ${count(slots)} slots`} />
        <${Tile} name="Finished in the last hour" value=${count(done)} />
        <${Tile} name="Failed in the last hour" value=${count(failed)} tone=${failed ? "bad" : ""} note=${done ? `${((100 * failed) / done).toFixed(1)} %` : ""} />
        <${Tile} name="Store" value=${store.ready ? "ready" : "away"} tone=${store.ready ? "good" : "bad"} note=${store.ready ? `${Math.round(store.took)} ms` : store.why} />
      </dl>
      <${Panel} title="Finished jobs per minute" actions=${html`<span class="legend"><span><i class="ended"></i>finished</span><span><i class="failed"></i>failed</span></span>`}>
        <${Chart} minutes=${minutes} />
      <//>
      <${Panel} title="Queues" flush><${Queues} queues=${queues} ended=${ended} refresh=${refresh} /><//>
      <${Panel} title="Workers" flush><${Workers} workers=${workers} /><//>
      ${failing.length
        ? html`<${Panel} title="Failing webhooks">
            <ul class="because">
              ${failing.map((each) => html`<li>
                <span class="chip bad">${each.enabled ? "failing" : "disabled"}</span>
                <a href=${to("webhooks", each.id)}>${each.url}</a>
                <span class="quiet">${each.enabled ? html`since <${Time} at=${each.failing_since} />` : each.disabled_why}</span>
              </li>`)}
            </ul>
          <//>`
        : null}
    </div>
  `;
};
