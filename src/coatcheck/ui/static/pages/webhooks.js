// Webhooks and their deliveries.

import { get, post, remove } from "../api.js";
import { Curl } from "../parts/curl.js";
import { Dialog } from "../parts/dialog.js";
import { Copy, Empty, Failure, Panel, Time, Waiting } from "../parts/small.js";
import { Table } from "../parts/table.js";
import { usePolled } from "../polling.js";
import { go, to } from "../router.js";
import { attempt, confirm } from "../messages.js";
import { mayForAll, tenant } from "../session.js";
import { useStore } from "../store.js";
import { html, useState } from "../view.js";
import { plural } from "../format.js";
import { Deliveries } from "./deliveries.js";

const EVENTS = ["job.queued", "job.running", "job.waiting", "job.succeeded", "job.failed", "job.cancelled", "job.phase"];
const USUAL = ["job.succeeded", "job.failed", "job.cancelled"];

const pathOf = ({ id }) => `/v1/webhooks/${encodeURIComponent(id)}`;

const Secret = ({ secret, onClose }) => html`
  <${Dialog} title="Webhook secret, shown once" onClose=${onClose}>
    <p>It signs messages according to Standard Webhooks.</p>
    <p class="secret"><code>${secret}</code><${Copy} text=${secret} label="Copy the secret" /></p>
    <div class="dialog-buttons"><button type="button" class="main" onClick=${onClose}>Done</button></div>
  <//>
`;

const NewWebhook = ({ onClose, done }) => {
  const [problem, setProblem] = useState(null);
  const make = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      done(await post("/v1/webhooks", { url: form.get("url"), events: form.getAll("events"), description: form.get("description") }));
    } catch (error) {
      setProblem(error);
    }
  };
  return html`
    <${Dialog} title="Create a webhook" onClose=${onClose}>
      <form class="form" onSubmit=${make}>
        <div class="field"><label for="w-url">URL</label><input id="w-url" name="url" type="url" required placeholder="https://…" /></div>
        <div class="field"><span class="field-name">Events</span><div class="choices">
          ${EVENTS.map((name) => html`<label class="choice"><input type="checkbox" name="events" value=${name} defaultChecked=${USUAL.includes(name)} /> ${name.slice(4)}</label>`)}
        </div></div>
        <div class="field"><label for="w-what">Description</label><input id="w-what" name="description" /></div>
        <${Failure} error=${problem} />
        <div class="dialog-buttons"><button type="button" onClick=${onClose}>Cancel</button><button class="main" type="submit">Create</button></div>
      </form>
    <//>
  `;
};

const Standing = ({ webhook }) => {
  if (!webhook.enabled) return html`<span class="chip bad" title=${webhook.disabled_why ?? ""}>disabled</span>`;
  if (webhook.failing_since) return html`<span class="chip warn">failing since <${Time} at=${webhook.failing_since} /></span>`;
  return html`<span class="chip good">enabled</span>`;
};

const One = ({ webhook, refresh, reveal }) => {
  const writes = mayForAll("jobs:write");
  const act = (verb, words) => attempt(() => post(`${pathOf(webhook)}/${verb}`), words).then(refresh);
  const rotate = async () => {
    const yes = await confirm({ title: "Rotate the secret?", text: "Messages are signed with both secrets for a day, then only with the new one.", yes: "Rotate" });
    if (yes) await attempt(async () => reveal((await post(`${pathOf(webhook)}/rotate`)).secret));
  };
  const erase = async () => {
    const yes = await confirm({ title: "Delete this webhook?", text: "Its pending deliveries are discarded.", yes: "Delete", danger: true });
    if (yes && (await attempt(() => remove(pathOf(webhook)), "The webhook is deleted."))) {
      go("#/webhooks");
      refresh();
    }
  };
  return html`
    <${Panel} title=${webhook.url} actions=${writes ? html`
      <button type="button" class="small" onClick=${() => attempt(() => post(`${pathOf(webhook)}/redeliver`), ({ deliveries }) => `${plural(deliveries, "delivery").replace("deliverys", "deliveries")} sent again.`)}>Send again what failed</button>
      <button type="button" class="small" onClick=${() => webhook.enabled ? act("disable", "The webhook is disabled.") : act("enable", "The webhook is enabled.")}>${webhook.enabled ? "Disable" : "Enable"}</button>
      <button type="button" class="small" onClick=${rotate}>Rotate secret</button>
      <button type="button" class="small danger" onClick=${erase}>Delete</button>` : null}>
      <p><${Standing} webhook=${webhook} /> ${webhook.description} <span class="quiet">${webhook.events.join(", ")}</span></p>
    <//>
    <${Deliveries} path=${`${pathOf(webhook)}/deliveries`} />
  `;
};

export const Webhooks = ({ id }) => {
  const named = useStore(tenant);
  const { value, error, refresh } = usePolled(() => get("/v1/webhooks?limit=200"), [named], 5000);
  const [making, setMaking] = useState(false);
  const [secret, setSecret] = useState(null);
  const rows = value?.webhooks ?? [];
  const chosen = rows.find((each) => each.id === id);
  const columns = [
    { name: "Address", kind: "whole", cell: (each) => html`<a href=${to("webhooks", each.id)} aria-current=${each.id === id ? "true" : undefined}>${each.url}</a>
      ${each.description ? html`<div class="quiet">${each.description}</div>` : null}` },
    { name: "Events", kind: "whole", cell: ({ events }) => events.map((name) => name.slice(4)).join(", ") },
    { name: "State", cell: (each) => html`<${Standing} webhook=${each} />` },
    { name: "Created", kind: "number away", cell: ({ created_at: at }) => html`<${Time} at=${at} />` },
  ];
  return html`
    <div class="page-head"><h1>Webhooks</h1><div class="actions">
      ${mayForAll("jobs:write") ? html`<button type="button" class="main" onClick=${() => setMaking(true)}>Create webhook</button>` : null}
    </div></div>
    <div class="stack">
      <${Failure} error=${value ? null : error} />
      ${!value && !error ? html`<${Waiting} />` : null}
      ${value ? html`<${Panel} flush label="Webhooks">
        ${rows.length
          ? html`<div class="as-list"><${Table} caption="Webhooks" columns=${columns} rows=${rows} keyOf=${(each) => each.id} /></div>`
          : html`<${Empty} title="No webhooks yet">
              <p>A webhook is notified when jobs change state. Messages are signed and retried:</p>
              ${mayForAll("jobs:write") ? html`<${Curl} path="/v1/webhooks" body=${{ url: "https://example.com/told" }} />` : null}
            <//>`}
      <//>` : null}
      ${chosen ? html`<${One} key=${chosen.id} webhook=${chosen} refresh=${refresh} reveal=${setSecret} />` : null}
    </div>
    ${making ? html`<${NewWebhook} onClose=${() => setMaking(false)} done=${(made) => {
      setMaking(false);
      setSecret(made.secret);
      refresh();
    }} />` : null}
    ${secret ? html`<${Secret} secret=${secret} onClose=${() => setSecret(null)} />` : null}
  `;
};
