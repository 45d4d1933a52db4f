// Collections of documents, and search.

import { get, remove, withQuery } from "../api.js";
import { Curl } from "../parts/curl.js";
import { Empty, Failure, Labels, Panel, Time, Waiting } from "../parts/small.js";
import { Table } from "../parts/table.js";
import { usePolled } from "../polling.js";
import { to } from "../router.js";
import { attempt, confirm } from "../messages.js";
import { may, server, tenant } from "../session.js";
import { useStore } from "../store.js";
import { html, useState } from "../view.js";
import { count, plural, size } from "../format.js";

// The kind that ingests documents; a key that may read its jobs may read the documents.
const SURFACE = "ingest";
const KIND = "ingest.document";
const RESULTS = 10;
const PAGE = 50;

export const mayReadDocuments = () => server.get().surfaces.includes(SURFACE) && may("jobs:read", KIND);

const pathOf = (name) => `/v1/collections/${encodeURIComponent(name)}`;

const Found = ({ found }) => {
  const { document, page, headings, text, score } = found;
  const title = document.title || document.name;
  const below = headings.filter((heading) => heading !== title);
  const place = [...below, page ? `page ${page}` : ""].filter(Boolean).join(" › ");
  return html`
    <article class="found">
      <h3>${title} <span class="quiet">${place}</span></h3>
      <p>${text}</p>
      <span class="quiet">${document.name}, score ${score.toFixed(3)} <${Labels} labels=${document.metadata} /></span>
    </article>
  `;
};

const Search = ({ name }) => {
  const [results, setResults] = useState(null);
  const [problem, setProblem] = useState(null);
  const find = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      const asked = { q: form.get("q"), k: RESULTS, mode: form.get("mode") };
      setResults((await get(withQuery(`${pathOf(name)}/search`, asked))).results);
      setProblem(null);
    } catch (error) {
      setProblem(error);
    }
  };
  return html`
    <${Panel} title=${`Search in ${name}`} flush>
      <form class="search" role="search" onSubmit=${find}>
        <input name="q" type="search" required aria-label="Query" placeholder="A question, or words" />
        <select name="mode" aria-label="Search mode">
          <option value="hybrid">hybrid</option><option value="text">full text</option><option value="vector">semantic</option>
        </select>
        <button class="main" type="submit">Search</button>
      </form>
      <${Failure} error=${problem} />
      ${results?.map((found) => html`<${Found} found=${found} />`)}
      ${results && !results.length ? html`<p class="quiet">No results.</p>` : null}
    <//>
  `;
};

const Documents = ({ name }) => {
  const [cursors, setCursors] = useState([]);
  const address = withQuery(`${pathOf(name)}/documents`, { limit: PAGE, cursor: cursors.at(-1) });
  const { value, error, refresh } = usePolled(() => get(address), [address], 8000);
  const erase = async (document) => {
    const yes = await confirm({ title: `Delete ${document.name}?`, text: "The document and its passages are deleted from the collection.", yes: "Delete", danger: true });
    if (yes) await attempt(() => remove(`/v1/documents/${encodeURIComponent(document.id)}`), "The document is deleted.").then(refresh);
  };
  const columns = [
    { name: "Document", kind: "whole", cell: ({ title, name: file }) => html`${title || file} <span class="quiet">${title ? file : ""}</span>` },
    { name: "Passages", kind: "number named", cell: ({ passages }) => count(passages) },
    { name: "Size", kind: "number named", cell: ({ size: bytes }) => size(bytes) },
    { name: "Changed", kind: "number", cell: ({ updated_at: at }) => html`<${Time} at=${at} />` },
    { name: "", kind: "tools", cell: (document) => may("jobs:write", KIND) ? html`
      <button type="button" class="small danger" onClick=${() => erase(document)}>Delete</button>` : null },
  ];
  return html`
    <${Panel} title="Documents" flush>
      <${Failure} error=${value ? null : error} />
      ${value ? html`<div class="as-list"><${Table} caption="Documents" columns=${columns} rows=${value.documents} keyOf=${({ id }) => id} /></div>` : null}
      ${cursors.length || value?.next_cursor ? html`<div class="pager">
        <button type="button" disabled=${!cursors.length} onClick=${() => setCursors(cursors.slice(0, -1))}>Previous</button>
        <button type="button" disabled=${!value?.next_cursor} onClick=${() => setCursors([...cursors, value.next_cursor])}>Next</button>
      </div>` : null}
    <//>
  `;
};

export const Collections = ({ id }) => {
  const named = useStore(tenant);
  const { value, error } = usePolled(() => get("/v1/collections"), [named], 8000);
  const rows = value?.collections ?? [];
  const name = id ?? (rows.length === 1 ? rows[0].name : undefined);
  return html`
    <div class="page-head"><h1>Collections</h1></div>
    <div class="stack">
      <${Failure} error=${value ? null : error} />
      ${!value && !error ? html`<${Waiting} />` : null}
      ${value && !rows.length ? html`<${Panel} label="Collections"><${Empty} title="No documents yet">
        <p>A job reads a file, splits it into passages and indexes them:</p>
        ${may("jobs:write", KIND) ? html`<${Curl} path="/v1/ingest" form=${{ files: "@README.md", collection: "docs" }} />` : null}
      <//><//>` : null}
      ${rows.length ? html`<${Panel} label="Collections"><ul class="files">
        ${rows.map((each) => html`<li key=${each.name}><a href=${to("collections", each.name)} aria-current=${each.name === name ? "true" : undefined}>${each.name}</a>
          <span class="quiet">${plural(each.documents, "document")}, ${plural(each.passages, "passage")}</span></li>`)}
      </ul><//>` : null}
      ${name ? html`<${Search} key=${`search ${name}`} name=${name} /><${Documents} key=${`documents ${name}`} name=${name} />` : null}
    </div>
  `;
};
