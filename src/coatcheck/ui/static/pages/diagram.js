// A diagram editor with a preview. Each rendering is a job.

import { post } from "../api.js";
import { Picture, canBeShown } from "../parts/picture.js";
import { Panel } from "../parts/small.js";
import { go, to } from "../router.js";
import { resolve } from "../schema.js";
import { html, useState } from "../view.js";

const EXAMPLES = {
  mermaid: "flowchart LR\n  coat[A slow job] --> ticket{{Ticket}}\n  ticket -->|come back| result[(Result)]\n  ticket -.->|or be told| hook([Webhook])\n",
  d2: "client -> coatcheck: hand in\ncoatcheck -> worker: claim\nworker -> coatcheck: result\nclient -> coatcheck: come back\n",
};
const PATIENCE_S = 20;

export const DiagramEditor = ({ kind }) => {
  const schema = kind.input_schema;
  const formats = resolve(schema.properties.format, schema).enum ?? ["mermaid"];
  const [format, setFormat] = useState(formats[0]);
  const [source, setSource] = useState(EXAMPLES[formats[0]] ?? "");
  const [job, setJob] = useState(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const draw = async () => {
    setBusy(true);
    try {
      const headers = { Prefer: `wait=${PATIENCE_S}` };
      const drawn = await post("/v1/jobs", { kind: kind.name, input: { source, format } }, { headers });
      setJob(drawn);
      setProblem(drawn.error?.message ?? "");
    } catch (error) {
      setProblem(error.message);
    }
    setBusy(false);
  };
  const choose = (event) => {
    if (Object.values(EXAMPLES).includes(source)) setSource(EXAMPLES[event.target.value] ?? "");
    setFormat(event.target.value);
  };
  const typed = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) draw();
  };
  const picture = job?.artifacts.find(canBeShown);
  return html`
    <${Panel} title="Source" actions=${html`
      <select aria-label="Format" value=${format} onChange=${choose}>${formats.map((each) => html`<option>${each}</option>`)}</select>
      <button type="button" class="main" disabled=${busy} onClick=${draw} title="Ctrl+Enter">${busy ? "Drawing …" : "Draw"}</button>`}>
      <div class="editor field">
        <label class="unseen" for="source">The source of the diagram</label>
        <textarea id="source" spellcheck="false" value=${source} onInput=${(event) => setSource(event.target.value)} onKeyDown=${typed}></textarea>
        <span class="hint">Ctrl+Enter draws it.</span>
      </div>
    <//>
    <${Panel} title="Picture" actions=${job ? html`<button type="button" class="small" onClick=${() => go(to("jobs", job.id))}>Its job</button>` : null}>
      <div class="preview">
        ${problem ? html`<p class="notice bad" role="alert">${problem}</p>` : null}
        ${picture ? html`<${Picture} file=${picture} />` : problem ? null : html`<div class="picture"><span class="quiet">Not drawn yet.</span></div>`}
      </div>
    <//>
  `;
};
