// All jobs, newest first, with filters, live updates and bulk operations.

import { get, withQuery } from "../api.js";
import { canSubmit, firstExample, useKinds } from "../kinds.js";
import { Curl } from "../parts/curl.js";
import { Icon } from "../parts/icons.js";
import { Empty, Failure, Labels, Panel, Progress, State, Time, Waiting } from "../parts/small.js";
import { Pager, Table } from "../parts/table.js";
import { usePolled } from "../polling.js";
import { go, setQuery, to, useRoute } from "../router.js";
import { say } from "../messages.js";
import { isOperator, kindsFor, lookAt, server, tenant } from "../session.js";
import { useStore } from "../store.js";
import { html, useEffect, useMemo, useRef, useState } from "../view.js";
import { span } from "../format.js";
import { Bulk } from "./bulk.js";
import { STATES, looksLikeAnId, readFilters } from "./filters.js";

const PAGE = 50;
const NONE = [];

const took = ({ started_at: began, finished_at: ended }) =>
  began && ended ? span(new Date(ended) - new Date(began)) : "";

const COLUMNS = [
  { name: "Job", kind: "whole", cell: ({ id, kind }) => html`
    <a class="job-link" href=${to("jobs", id)}>${kind}<span class="mono">${id}</span></a>` },
  { name: "Status", cell: ({ state, reason }) => html`<${State} state=${state} reason=${reason} />` },
  { name: "", unseen: "Progress, error, labels", kind: "whole", cell: ({ state, progress, error, labels }) => html`
    ${["running", "waiting"].includes(state) ? html`<${Progress} progress=${progress} />` : null}
    ${state === "failed" && error ? html`<span class="quiet">${error.message.slice(0, 120)}</span>` : null}
    <${Labels} labels=${labels} />` },
  { name: "Queue", kind: "away", cell: ({ queue }) => queue },
  { name: "Attempts", kind: "number away", cell: ({ attempt: tries, max_attempts: most }) =>
    html`<span class=${tries > 1 ? "" : "quiet"}>${tries} of ${most}</span>` },
  { name: "Duration", kind: "number away", cell: took },
  { name: "Created", kind: "number", cell: ({ created_at: at }) => html`<${Time} at=${at} />` },
];

const Tenants = () => {
  const { value } = usePolled(() => get("/v1/tenants?limit=200"), [], 60000);
  const named = useStore(tenant);
  const own = server.get().caller.tenant;
  const names = [own, ...(value?.tenants ?? []).map(({ name }) => name).filter((name) => name !== own)];
  if (names.length < 2) return null;
  return html`
    <select aria-label="Tenant" value=${named || own} onChange=${(event) => lookAt(event.target.value)}>
      ${names.map((name) => html`<option value=${name}>${name}</option>`)}
    </select>
  `;
};

const Filters = ({ query, kinds, queues, note }) => {
  const [text, setText] = useState("");
  const field = useRef(null);
  const isLimited = kindsFor("jobs:read") !== null;
  const written = query.get("text") ?? "";
  useEffect(() => setText(written), [written]);
  useEffect(() => {
    const typed = (event) => {
      if (event.key !== "/" || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
      event.preventDefault();
      field.current.focus();
    };
    addEventListener("keydown", typed);
    return () => removeEventListener("keydown", typed);
  }, []);
  // A complete id opens the job, even one that a surface assigned.
  const find = async (event) => {
    event.preventDefault();
    const wanted = text.trim();
    setQuery({ text: wanted });
    if (!wanted || wanted.includes(":") || kinds.includes(wanted)) return;
    try {
      const job = await get(`/v1/jobs/${encodeURIComponent(wanted)}`);
      go(to("jobs", job.id));
    } catch (error) {
      if (looksLikeAnId(wanted) && wanted.length === 26) say(error.message, "bad");
    }
  };
  const choose = (name) => (event) => setQuery({ [name]: event.target.value });
  return html`
    <form class="filters" role="search" onSubmit=${find}>
      <div class="grow">
        <${Icon} name="search" />
        <input ref=${field} type="search" aria-label="Find jobs by kind, label or id" list="kinds" value=${text}
          placeholder="Kind, label:value or id" title="Press / to focus" onInput=${(event) => setText(event.target.value)} />
        <datalist id="kinds">${kinds.map((kind) => html`<option value=${kind} />`)}</datalist>
      </div>
      <select aria-label="Status" value=${query.get("state") ?? ""} onChange=${choose("state")}>
        <option value="">Any status</option>
        ${STATES.map((state) => html`<option value=${state}>${state}</option>`)}
      </select>
      <select aria-label="Kind" value=${query.get("kind") ?? (isLimited ? kinds[0] : "")} onChange=${choose("kind")}>
        ${isLimited ? null : html`<option value="">Any kind</option>`}
        ${kinds.map((kind) => html`<option value=${kind}>${kind}</option>`)}
      </select>
      <select aria-label="Queue" value=${query.get("queue") ?? ""} onChange=${choose("queue")}>
        <option value="">Any queue</option>
        ${queues.map((queue) => html`<option value=${queue}>${queue}</option>`)}
      </select>
      <div class="moments">
        <label class="moment">Created from <input type="datetime-local" value=${query.get("from") ?? ""} onChange=${choose("from")} /></label>
        <label class="moment">before <input type="datetime-local" aria-label="Created before" value=${query.get("to") ?? ""} onChange=${choose("to")} /></label>
      </div>
      ${note ? html`<span class="filter-note" role="status">${note}</span>` : null}
    </form>
  `;
};

const FirstJob = ({ kinds }) => {
  const possible = kinds.filter(canSubmit);
  const found = firstExample(possible);
  return html`<${Empty} title="No jobs yet">
    ${found
      ? html`<p>Submit the first one, <a href="#/try">here</a> or with this command:</p><${Curl} path="/v1/jobs" body=${found} />`
      : possible.length ? html`<p><a href="#/try">Submit one</a>.</p>` : null}
  <//>`;
};

export const Jobs = () => {
  const { query } = useRoute();
  const named = useStore(tenant);
  const known = useKinds().value?.kinds ?? NONE;
  const kinds = useMemo(() => kindsFor("jobs:read") ?? known.map(({ name }) => name), [known]);
  const queues = useMemo(() => [...new Set(known.map(({ queue }) => queue))].sort(), [known]);
  const { filters, note } = useMemo(() => readFilters(query, kinds), [query, kinds]);
  const { nothing, beginning, ...asked } = filters;
  const filterText = JSON.stringify([filters, named]);
  // The cursors of the previous pages; the last one starts the current page.
  const [cursors, setCursors] = useState([]);
  useEffect(() => setCursors([]), [filterText]);
  const cursor = cursors.at(-1) ?? "";
  const address = withQuery("/v1/jobs", { ...asked, limit: PAGE, cursor });
  const { value, error, refresh } = usePolled(
    () => (nothing ? { jobs: [], next_cursor: null } : get(address)), [address, nothing, named], 2000,
  );
  const jobs = (value?.jobs ?? []).filter(({ id }) => !beginning || id.startsWith(beginning));
  const isFiltered = [...query.keys()].length > 0;
  return html`
    <div class="page-head"><h1>Jobs</h1><div class="actions">
      ${isOperator() ? html`<${Tenants} />` : null}
      <span class=${`live ${error ? "off" : ""}`}>live</span>
    </div></div>
    <div class="stack">
      <${Filters} query=${query} kinds=${kinds} queues=${queues} note=${note} />
      <${Bulk} filters=${asked} hidden=${nothing || beginning} done=${refresh} />
      <${Failure} error=${value ? null : error} />
      <${Panel} flush label="Jobs">
        ${!value && !error ? html`<${Waiting} />` : null}
        ${value && !jobs.length
          ? isFiltered || cursors.length
            ? html`<${Empty} title="No matching jobs"><p>No job matches these filters.</p>
                <button type="button" onClick=${() => go("#/jobs")}>Show all</button><//>`
            : html`<${FirstJob} kinds=${known} />`
          : null}
        ${jobs.length
          ? html`<div class="as-list jobs"><${Table} caption="Jobs, newest first" columns=${COLUMNS} rows=${jobs} keyOf=${({ id }) => id} /></div>`
          : null}
        <${Pager} cursors=${cursors} setCursors=${setCursors} next=${value?.next_cursor} />
      <//>
    </div>
  `;
};
