// API keys, tenants and their usage.

import { get, post, put, remove, withQuery } from "../api.js";
import { Dialog } from "../parts/dialog.js";
import { CommandLine, Copy, Empty, Failure, Panel, Time, Waiting } from "../parts/small.js";
import { Table } from "../parts/table.js";
import { usePolled } from "../polling.js";
import { attempt, confirm } from "../messages.js";
import { isOperator, server } from "../session.js";
import { html, useState } from "../view.js";
import { count, span } from "../format.js";

const SCOPES = ["jobs:read", "jobs:write", "jobs:cancel", "jobs:work", "admin"];
const STATUSES = ["active", "unpaid", "suspended"];

const NewKey = ({ onClose, done }) => {
  const [problem, setProblem] = useState(null);
  const make = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const own = form.get("own").split(/[\s,]+/).filter(Boolean);
    try {
      done(await post("/v1/keys", {
        ...(form.get("tenant") && { tenant: form.get("tenant") }),
        scopes: [...form.getAll("scopes"), ...own],
        note: form.get("note"),
        ...(form.get("until") && { expires_at: new Date(form.get("until")).toISOString() }),
      }));
    } catch (error) {
      setProblem(error);
    }
  };
  return html`
    <${Dialog} title="Create a key" onClose=${onClose}>
      <form class="form" onSubmit=${make}>
        ${isOperator() ? html`<div class="field"><label for="k-tenant">Tenant</label><input id="k-tenant" name="tenant" placeholder=${server.get().caller.tenant} /></div>` : null}
        <div class="field"><span class="field-name">Scopes</span><div class="choices">
          ${SCOPES.map((scope) => html`<label class="choice"><input type="checkbox" name="scopes" value=${scope} /> ${scope}</label>`)}
        </div></div>
        <div class="field"><label for="k-own">Scopes for single kinds</label><input id="k-own" name="own" placeholder="jobs:read:report jobs:write:report" /></div>
        <div class="form-row">
          <div class="field"><label for="k-note">Description</label><input id="k-note" name="note" maxlength="200" /></div>
          <div class="field"><label for="k-until">Expires</label><input id="k-until" name="until" type="datetime-local" /></div>
        </div>
        ${server.get().needs_key ? null : html`<p class="notice warn">This is the first key. Once it exists, every request needs a key.</p>`}
        <${Failure} error=${problem} />
        <div class="dialog-buttons"><button type="button" onClick=${onClose}>Cancel</button><button class="main" type="submit">Create</button></div>
      </form>
    <//>
  `;
};

const Made = ({ made, onClose }) => html`
  <${Dialog} title="Your new key, shown once" onClose=${onClose}>
    <p class="secret"><code>${made.key}</code><${Copy} text=${made.key} label="Copy the key" /></p>
    <p class="quiet">For ${made.tenant}: ${made.scopes.join(", ")}</p>
    <div class="dialog-buttons"><button type="button" class="main" onClick=${onClose}>Done</button></div>
  <//>
`;

const standing = ({ revoked_at: revoked, expires_at: until }) => {
  if (revoked) return html`<span class="chip bad">revoked</span>`;
  if (until && new Date(until) < new Date()) return html`<span class="chip warn">expired</span>`;
  return until ? html`<span>until <${Time} at=${until} how="clock" /></span>` : html`<span class="chip good">active</span>`;
};

const Usage = ({ name }) => {
  const { value } = usePolled(() => get(`/v1/tenants/${encodeURIComponent(name)}/usage`), [name], 30000);
  const sum = (value?.usage ?? []).reduce(
    (total, each) => ({ submitted: total.submitted + each.submitted, failed: total.failed + each.failed, ms: total.ms + each.run_ms }),
    { submitted: 0, failed: 0, ms: 0 },
  );
  return html`${count(sum.submitted)} jobs, ${count(sum.failed)} failed, ${span(sum.ms)} of work`;
};

const Tenants = () => {
  const { value, error, refresh } = usePolled(() => get("/v1/tenants?limit=200"), [], 10000);
  const change = (name, status) =>
    attempt(() => put(`/v1/tenants/${encodeURIComponent(name)}`, { status }), `${name} is ${status}.`).then(refresh);
  const columns = [
    { name: "Tenant", cell: ({ name }) => html`<b>${name}</b>` },
    { name: "Status", cell: ({ name, status }) => html`
      <select aria-label=${`Status of ${name}`} value=${status} onChange=${(event) => change(name, event.target.value)}>
        ${STATUSES.map((each) => html`<option>${each}</option>`)}
      </select>` },
    { name: "Quotas", kind: "whole", cell: ({ quotas }) => {
      const set = Object.entries(quotas).filter(([, most]) => most !== null);
      return set.length ? set.map(([quota, most]) => html`<span class="label">${quota}<b>${count(most)}</b></span> `) : html`<span class="quiet">no limits</span>`;
    } },
    { name: "Last 24 h", kind: "number whole", cell: ({ name }) => html`<${Usage} name=${name} />` },
  ];
  return html`
    <${Panel} title="Tenants" flush>
      <${Failure} error=${value ? null : error} />
      ${value && !value.tenants.length ? html`<p class="quiet">There is only the operator's tenant, default.</p>` : null}
      ${value?.tenants.length ? html`<div class="as-list"><${Table} caption="Tenants" columns=${columns} rows=${value.tenants} keyOf=${({ name }) => name} /></div>` : null}
    <//>
  `;
};

export const Keys = () => {
  const [cursors, setCursors] = useState([]);
  const address = withQuery("/v1/keys", { limit: 100, cursor: cursors.at(-1) });
  const { value, error, refresh } = usePolled(() => get(address), [address], 10000);
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState(null);
  const own = server.get().caller.key_id;
  const revoke = async (key) => {
    const yes = await confirm({
      title: `Revoke ${key.id}?`, yes: "Revoke", danger: true,
      text: key.id === own ? "This is the key you signed in with: you will be signed out." : "It stops working everywhere, at once and permanently.",
    });
    if (yes) await attempt(() => remove(`/v1/keys/${key.id}`), "The key is revoked.").then(refresh);
  };
  const columns = [
    { name: "Key", kind: "whole", cell: ({ id, note }) => html`<span class="mono">${id}</span> ${id === own ? html`<span class="chip">yours</span>` : null} <span class="quiet">${note}</span>` },
    { name: "Tenant", cell: ({ tenant }) => tenant },
    { name: "Scopes", kind: "whole", cell: ({ scopes }) => html`<span class="labels">${scopes.map((scope) => html`<span class="label">${scope}</span>`)}</span>` },
    { name: "State", cell: standing },
    { name: "Last used", kind: "number named", cell: ({ last_used_at: at }) => html`<${Time} at=${at} />` },
    { name: "Created", kind: "number away", cell: ({ created_at: at }) => html`<${Time} at=${at} />` },
    { name: "", kind: "tools", cell: (key) => key.revoked_at ? null : html`<button type="button" class="small danger" onClick=${() => revoke(key)}>Revoke</button>` },
  ];
  const rows = value?.keys ?? [];
  return html`
    <div class="page-head"><h1>Keys and tenants</h1><div class="actions">
      <button type="button" class="main" onClick=${() => setMaking(true)}>Create key</button>
    </div></div>
    <div class="stack">
      <${Failure} error=${value ? null : error} />
      ${!value && !error ? html`<${Waiting} />` : null}
      ${value ? html`<${Panel} title="Keys" flush>
        ${rows.length
          ? html`<div class="as-list"><${Table} caption="Keys" columns=${columns} rows=${rows} keyOf=${({ id }) => id} /></div>`
          : html`<${Empty} title="No keys yet">
              <p>Without a key the server listens on loopback only, and every local client has full access.</p>
              <${CommandLine} text="coatcheck keys create --tenant default --scope admin" />
            <//>`}
        ${cursors.length || value.next_cursor ? html`<div class="pager">
          <button type="button" disabled=${!cursors.length} onClick=${() => setCursors(cursors.slice(0, -1))}>Previous</button>
          <button type="button" disabled=${!value.next_cursor} onClick=${() => setCursors([...cursors, value.next_cursor])}>Next</button>
        </div>` : null}
      <//>` : null}
      ${isOperator() ? html`<${Tenants} key=${made?.id ?? ""} />` : null}
    </div>
    ${making ? html`<${NewKey} onClose=${() => setMaking(false)} done=${(key) => {
      setMaking(false);
      setMade(key);
      refresh();
    }} />` : null}
    ${made ? html`<${Made} made=${made} onClose=${() => setMade(null)} />` : null}
  `;
};
