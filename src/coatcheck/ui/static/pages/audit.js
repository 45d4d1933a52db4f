// Who changed keys, tenants, webhooks, schedules and tasks, newest first.

import { get, withQuery } from "../api.js";
import { Icon } from "../parts/icons.js";
import { Empty, Failure, Panel, Time, Waiting } from "../parts/small.js";
import { Pager, Table } from "../parts/table.js";
import { usePolled } from "../polling.js";
import { go, setQuery, to, useRoute } from "../router.js";
import { isOperator } from "../session.js";
import { html, useEffect, useState } from "../view.js";

const PAGE = 50;
const RESOURCES = ["key", "tenant", "webhook", "schedule", "task"];
const VERBS = ["create", "update", "delete", "revoke", "rotate", "enable", "disable", "pause", "resume"];
const TONES = { create: "good", delete: "bad", revoke: "bad" };
// The page of each resource type; the shared webhook secret has none.
const LINKS = {
  key: () => to("keys"),
  tenant: () => to("keys"),
  webhook: (id) => (id === "secret" ? to("webhooks") : to("webhooks", id)),
  schedule: () => to("schedules"),
};

const verbOf = ({ action }) => action.slice(action.indexOf(".") + 1);

const Detail = ({ detail }) => Object.entries(detail).map(([name, value]) => html`
  <span class="label">${name}<b>${Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : value}</b></span> `);

const Resource = ({ entry }) => {
  const { resource, resource_id: id } = entry;
  const link = LINKS[resource];
  const name = html`<span class="mono">${id}</span>`;
  return html`${resource} ${link && verbOf(entry) !== "delete" ? html`<a href=${link(id)}>${name}</a>` : name}`;
};

const COLUMNS = [
  { name: "When", kind: "number", cell: ({ at }) => html`<${Time} at=${at} />` },
  { name: "Actor", cell: ({ actor }) => html`<a class="mono" href=${`${to("audit")}?actor=${encodeURIComponent(actor)}`}>${actor}</a>` },
  { name: "Action", cell: (entry) => html`<span class=${`chip ${TONES[verbOf(entry)] ?? ""}`}>${verbOf(entry)}</span>` },
  { name: "Resource", kind: "whole", cell: (entry) => html`<${Resource} entry=${entry} />` },
  { name: "Tenant", kind: "named", cell: ({ tenant }) => tenant },
  { name: "Detail", kind: "whole away", cell: ({ detail }) => html`<${Detail} detail=${detail} />` },
];

const asTime = (text) => (text ? new Date(text).toISOString() : "");

// Converts the query of the page to the parameters of GET /v1/audit.
const readFilters = (query) => {
  const [resource, verb] = [query.get("resource") ?? "", query.get("verb") ?? ""];
  return {
    actor: query.get("actor") ?? "",
    tenant: query.get("tenant") ?? "",
    resource: verb ? "" : resource,
    action: resource && verb ? `${resource}.${verb}` : "",
    since: asTime(query.get("from")),
    until: asTime(query.get("to")),
  };
};

const Filters = ({ query }) => {
  const choose = (name) => (event) => setQuery({ [name]: event.target.value.trim() });
  // Not `value`: arriving entries would overwrite what the user types.
  const typed = (name) => {
    const given = query.get(name) ?? "";
    return { key: `${name} ${given}`, defaultValue: given, onChange: choose(name) };
  };
  const resource = query.get("resource") ?? "";
  return html`
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <div class="grow">
        <${Icon} name="search" />
        <input type="search" aria-label="Actor" placeholder="Actor: the id of a key, cli, app or anonymous"
          ...${typed("actor")} />
      </div>
      <select aria-label="Resource" value=${resource} onChange=${(event) => setQuery({ resource: event.target.value, verb: "" })}>
        <option value="">Any resource</option>
        ${RESOURCES.map((each) => html`<option value=${each}>${each}</option>`)}
      </select>
      ${resource ? html`<select aria-label="Action" value=${query.get("verb") ?? ""} onChange=${choose("verb")}>
        <option value="">Any action</option>
        ${VERBS.map((each) => html`<option value=${each}>${each}</option>`)}
      </select>` : null}
      ${isOperator() ? html`<input aria-label="Tenant" placeholder="Any tenant" ...${typed("tenant")} />` : null}
      <div class="moments">
        <label class="moment">From <input type="datetime-local" value=${query.get("from") ?? ""} onChange=${choose("from")} /></label>
        <label class="moment">before <input type="datetime-local" aria-label="Before" value=${query.get("to") ?? ""} onChange=${choose("to")} /></label>
      </div>
    </form>
  `;
};

export const Audit = () => {
  const { query } = useRoute();
  const filters = readFilters(query);
  const filterText = JSON.stringify(filters);
  const [cursors, setCursors] = useState([]);
  useEffect(() => setCursors([]), [filterText]);
  const address = withQuery("/v1/audit", { ...filters, limit: PAGE, cursor: cursors.at(-1) });
  const { value, error } = usePolled(() => get(address), [address], 10000);
  const rows = value?.entries ?? [];
  const isFiltered = [...query.keys()].length > 0;
  return html`
    <div class="page-head"><h1>Audit log</h1></div>
    <div class="stack">
      <${Filters} query=${query} />
      <${Failure} error=${error} />
      <${Panel} flush label="Audit log">
        ${!value && !error ? html`<${Waiting} />` : null}
        ${value && !rows.length
          ? isFiltered
            ? html`<${Empty} title="No matching entries"><p>No entry matches these filters.</p>
                <button type="button" onClick=${() => go("#/audit")}>Show all</button><//>`
            : html`<${Empty} title="No entries yet"><p>Changes of keys, tenants, webhooks, schedules and tasks are listed here.</p><//>`
          : null}
        ${rows.length
          ? html`<div class="as-list"><${Table} caption="Audit log, newest first" columns=${COLUMNS} rows=${rows} keyOf=${({ id }) => id} /></div>`
          : null}
        <${Pager} cursors=${cursors} setCursors=${setCursors} next=${value?.next_cursor} />
      <//>
    </div>
  `;
};
