// Documents that were taken in, and what is found in them.

import { get, withQuery } from "../api.js";
import { CommandLine, Empty, Failure, Labels, Panel, Time, Waiting } from "../parts/small.js";
import { usePolled } from "../polling.js";
import { to } from "../router.js";
import { tenant } from "../session.js";
import { useStore } from "../store.js";
import { html, useState } from "../view.js";
import { count } from "../words.js";

const RESULTS = 10;

// The one list that an answer holds, whatever it is called.
const listIn = (answer) => Object.values(answer ?? {}).find(Array.isArray) ?? [];

const Found = ({ found }) => {
  const document = found.document ?? found;
  const place = [found.page ? `page ${found.page}` : "", ...(found.headings ?? [])].filter(Boolean).join(" › ");
  return html`
    <article class="found">
      <h3>${document.title || document.name || found.document_id} <span class="quiet">${place}</span></h3>
      <p>${found.text ?? found.passage ?? ""}</p>
      <span class="quiet">${typeof found.score === "number" ? `score ${found.score.toFixed(3)}` : ""} <${Labels} labels=${document.metadata ?? {}} /></span>
    </article>
  `;
};

const Search = ({ name }) => {
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState(null);
  const find = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      const address = withQuery(`/v1/collections/${encodeURIComponent(name)}/search`, { q: form.get("q"), k: RESULTS, mode: form.get("mode") });
      setFound(listIn(await get(address)));
      setProblem(null);
    } catch (error) {
      setProblem(error);
    }
  };
  return html`
    <${Panel} title=${`Search in ${name}`} flush>
      <form class="filters found" role="search" onSubmit=${find}>
        <div class="actions">
          <input name="q" type="search" required aria-label="What to search for" placeholder="A question, or words" size="48" />
          <select name="mode" aria-label="How"><option value="">both ways</option><option value="text">by words</option><option value="vector">by meaning</option></select>
          <button class="main" type="submit">Search</button>
        </div>
      </form>
      <${Failure} error=${problem} />
      ${found ? found.map((each) => html`<${Found} found=${each} />`) : null}
      ${found && !found.length ? html`<p class="quiet">Nothing was found.</p>` : null}
    <//>
  `;
};

const Documents = ({ name }) => {
  const { value, error } = usePolled(() => get(`/v1/collections/${encodeURIComponent(name)}/documents?limit=50`), [name], 8000);
  const rows = listIn(value);
  return html`
    <${Panel} title="Documents">
      <${Failure} error=${value ? null : error} />
      <ul class="files">
        ${rows.map((each) => html`<li key=${each.id}><span>${each.title || each.name}</span><span class="quiet">${each.name}${each.chunks ?? each.passages ? `, ${count(each.chunks ?? each.passages)} passages` : ""}</span>
          ${each.updated_at ? html`<${Time} at=${each.updated_at} />` : null}</li>`)}
      </ul>
    <//>
  `;
};

export const Collections = ({ id }) => {
  const named = useStore(tenant);
  const { value, error } = usePolled(() => get("/v1/collections"), [named], 8000);
  const rows = listIn(value);
  const name = id ?? (rows.length === 1 ? rows[0].name : undefined);
  return html`
    <div class="page-head"><h1>Collections</h1></div>
    <div class="stack">
      <${Failure} error=${value ? null : error} />
      ${!value && !error ? html`<${Waiting} />` : null}
      ${value && !rows.length ? html`<${Panel}><${Empty} title="No documents yet">
        <p>A file is read, cut up and made searchable by a job:</p>
        <${CommandLine} text="coatcheck ingest README.md --collection docs" />
      <//><//>` : null}
      ${rows.length ? html`<${Panel} label="Collections"><ul class="files">
        ${rows.map((each) => html`<li key=${each.name}><a href=${to("collections", each.name)}>${each.name}</a>
          <span class="quiet">${each.documents === undefined ? "" : `${count(each.documents)} documents`}</span></li>`)}
      </ul><//>` : null}
      ${name ? html`<${Search} key=${name} name=${name} /><${Documents} name=${name} />` : null}
    </div>
  `;
};
