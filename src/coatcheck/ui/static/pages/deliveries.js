// Webhook deliveries and their responses.

import { get, post } from "../api.js";
import { Failure, Panel, Time } from "../parts/small.js";
import { Table } from "../parts/table.js";
import { usePolled } from "../polling.js";
import { to } from "../router.js";
import { attempt } from "../messages.js";
import { mayForAll } from "../session.js";
import { html } from "../view.js";

const TONES = { delivered: "good", failed: "bad", pending: "warn" };

const lastTry = ({ tries }) => {
  const last = tries.at(-1);
  if (!last) return html`<span class="quiet">not yet</span>`;
  return html`<span title=${last.error ?? ""}>${last.status ?? last.error} <span class="quiet">${last.took_ms} ms</span></span>`;
};

// `quietly`: render nothing if there are no deliveries.
export const Deliveries = ({ path, quietly }) => {
  const { value, error, refresh } = usePolled(() => get(`${path}?limit=25`), [path], 4000);
  const rows = value?.deliveries ?? [];
  if (quietly && !rows.length) return null;
  const again = (delivery) =>
    attempt(() => post(`/v1/webhooks/deliveries/${encodeURIComponent(delivery.id)}/redeliver`), "The delivery is due again.").then(refresh);
  const columns = [
    { name: "Told", kind: "whole", cell: ({ type, webhook }) => html`${type}
      ${webhook ? html` <a class="quiet" href=${to("webhooks", webhook)}>${webhook}</a>` : html` <span class="chip">job webhook</span>`}` },
    { name: "State", cell: ({ state }) => html`<span class=${`chip ${TONES[state]}`}>${state}</span>` },
    { name: "Attempts", kind: "number named", cell: ({ attempts }) => attempts },
    { name: "Last attempt", cell: lastTry },
    { name: "Next", kind: "named", cell: ({ next_at: at, state }) => state === "pending" ? html`<${Time} at=${at} />` : "" },
    { name: "When", kind: "number", cell: ({ timestamp }) => html`<${Time} at=${timestamp} />` },
    ...(quietly ? [] : [{ name: "Job", kind: "away", cell: ({ job_id: id }) => html`<a class="mono" href=${to("jobs", id)}>${id.slice(-8)}</a>` }]),
    { name: "", kind: "tools", cell: (delivery) => mayForAll("jobs:write") ? html`
      <button type="button" class="small" onClick=${() => again(delivery)}>Send again</button>` : null },
  ];
  return html`
    <${Panel} title="Webhook deliveries" flush>
      <${Failure} error=${value ? null : error} />
      ${rows.length
        ? html`<div class="as-list"><${Table} caption="Deliveries, newest first" columns=${columns} rows=${rows} keyOf=${({ id }) => id} /></div>`
        : html`<p class="quiet">No deliveries yet.</p>`}
    <//>
  `;
};
