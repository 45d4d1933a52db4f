// Submit a job: a form generated from the schema of its kind, or an editor for diagrams.

import { post } from "../api.js";
import { canSubmit, useKinds } from "../kinds.js";
import { Empty, Failure, Panel, Waiting } from "../parts/small.js";
import { JsonArea } from "../parts/json-area.js";
import { SchemaForm } from "../parts/schema-form.js";
import { go, setQuery, to, useRoute } from "../router.js";
import { say } from "../messages.js";
import { initial } from "../schema.js";
import { may } from "../session.js";
import { html, useMemo, useState } from "../view.js";
import { DiagramEditor } from "./diagram.js";

// A kind that renders diagrams has an input with a source and a format.
const draws = ({ input_schema: schema }) => Boolean(schema.properties?.source && schema.properties?.format);
const isDrawnHere = (kind) => draws(kind) && may("jobs:read", kind.name);

const KindForm = ({ kind }) => {
  const schema = kind.input_schema;
  const [value, setValue] = useState(() => initial(schema, schema));
  const [asJson, setAsJson] = useState(false);
  const [problem, setProblem] = useState(null);
  const [more, setMore] = useState({ queue: "", priority: "", labels: "" });
  const submit = async (event) => {
    event.preventDefault();
    const labels = Object.fromEntries(more.labels.split(/[\s,]+/).filter((text) => text.includes(":")).map((text) => [text.slice(0, text.indexOf(":")), text.slice(text.indexOf(":") + 1)]));
    const body = {
      kind: kind.name, input: value === undefined ? null : value,
      ...(more.queue && { queue: more.queue }),
      ...(more.priority && { priority: Number(more.priority) }),
      ...(Object.keys(labels).length && { labels }),
    };
    try {
      const { id } = await post("/v1/jobs", body);
      setProblem(null);
      // A key that may only submit cannot read the job.
      if (may("jobs:read", kind.name)) go(to("jobs", id));
      else say(`Submitted: ${id}`);
    } catch (error) {
      setProblem(error);
    }
  };
  const errors = problem?.errors ?? [];
  const elsewhere = problem && !errors.some(({ pointer }) => pointer.startsWith("/input"));
  const set = (name) => (event) => setMore({ ...more, [name]: event.target.value });
  return html`
    <div class="wide-form">
      <${Panel} title="Input" actions=${html`
        <div class="seg" role="group" aria-label="Input format">
          <button type="button" aria-pressed=${!asJson} onClick=${() => setAsJson(false)}>form</button>
          <button type="button" aria-pressed=${asJson} onClick=${() => setAsJson(true)}>JSON</button>
        </div>`}>
        <form class="form" onSubmit=${submit}>
          ${asJson
            ? html`<${JsonArea} label="Input, as JSON" value=${value} onChange=${setValue} />${errors.map(({ pointer, detail }) => html`<p class="notice bad">${pointer}: ${detail}</p>`)}`
            : html`<${SchemaForm} schema=${schema} value=${value} onChange=${setValue} errors=${errors} />`}
          <details>
            <summary class="quiet">Queue, priority, labels</summary>
            <div class="form-row">
              <div class="field"><label for="t-queue">Queue</label><input id="t-queue" placeholder=${kind.queue} value=${more.queue} onInput=${set("queue")} /></div>
              <div class="field"><label for="t-priority">Priority</label><input id="t-priority" type="number" placeholder="0" value=${more.priority} onInput=${set("priority")} /></div>
              <div class="field"><label for="t-labels">Labels</label><input id="t-labels" placeholder="team:blue day:1" value=${more.labels} onInput=${set("labels")} /></div>
            </div>
          </details>
          <${Failure} error=${elsewhere ? problem : null} />
          <div class="actions"><button class="main" type="submit">Submit</button></div>
        </form>
      <//>
    </div>
  `;
};

export const TryIt = () => {
  const { query } = useRoute();
  const { value, error } = useKinds();
  const kinds = useMemo(() => (value?.kinds ?? []).filter(canSubmit), [value]);
  const kind = kinds.find(({ name }) => name === query.get("kind")) ?? kinds[0];
  if (!value) return html`<${Failure} error=${error} />${error ? null : html`<${Waiting} />`}`;
  if (!kind) return html`<${Empty} title="Nothing to submit"><p>This key may not submit any kind of this server.</p><//>`;
  return html`
    <div class="page-head"><h1>Submit</h1>
      <select aria-label="Kind" value=${kind.name} onChange=${(event) => setQuery({ kind: event.target.value })}>
        ${kinds.map(({ name }) => html`<option value=${name}>${name}</option>`)}
      </select>
    </div>
    <div class="try">
      ${isDrawnHere(kind) ? html`<${DiagramEditor} key=${kind.name} kind=${kind} />` : html`<${KindForm} key=${kind.name} kind=${kind} />`}
    </div>
  `;
};
