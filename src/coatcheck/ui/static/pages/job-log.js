// The event log of a job, live.

import { Panel } from "../parts/small.js";
import { html, useEffect, useRef, useState } from "../view.js";
import { count, timeOfDay, exactTime } from "../format.js";

const CHOICES = { all: null, log: ["log"], output: ["output"] };

const besides = (data, ...names) => {
  const rest = Object.entries(data).filter(([name]) => !names.includes(name));
  return rest.length ? `  ${rest.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(" ")}` : "";
};

const words = ({ type, data }) => {
  switch (type) {
    case "log":
      return `${data.message}${besides(data, "message")}`;
    case "output":
      if (typeof data === "string") return data;
      return typeof data?.stdout === "string" ? data.stdout.replace(/\n$/, "") : JSON.stringify(data);
    case "progress":
      if (data.done === undefined) return `phase ${data.phase}`;
      return `${data.done}${data.total ? ` of ${data.total}` : ""}${data.message ? `  ${data.message}` : ""}`;
    case "step":
      return `${data.name}${data.key ? ` [${data.key}]` : ""} ${data.state}${data.attempts > 1 ? `, try ${data.attempts}` : ""}`;
    case "state":
      return `${data.state}${data.attempt ? `, attempt ${data.attempt}` : ""}${data.reason ? ` (${data.reason})` : ""}`;
    default:
      return JSON.stringify(data);
  }
};

export const Log = ({ events, leftOut, job }) => {
  const [chosen, setChosen] = useState("all");
  const [follows, setFollows] = useState(true);
  const place = useRef(null);
  const shown = events.filter(({ type }) => !CHOICES[chosen] || CHOICES[chosen].includes(type));
  useEffect(() => {
    if (follows && place.current) place.current.scrollTop = place.current.scrollHeight;
  }, [shown.length, follows]);
  const actions = html`
    <div class="seg" role="group" aria-label="Event types">
      ${Object.keys(CHOICES).map((name) => html`
        <button type="button" aria-pressed=${chosen === name} onClick=${() => setChosen(name)}>${name}</button>`)}
    </div>
    <label class="choice"><input type="checkbox" checked=${follows} onChange=${() => setFollows(!follows)} /> follow</label>
  `;
  return html`
    <${Panel} title="Log and output" actions=${actions} flush>
      <div class="log" ref=${place} role="log" tabindex="0" aria-label="Log and output">
        ${leftOut ? html`<p class="log-line quiet">${count(leftOut)} entries in the middle are not shown: GET ${job.links.events}</p>` : null}
        ${shown.map((event) => html`
          <div class=${`log-line type-${event.type}`} key=${event.seq}>
            <time datetime=${event.at} title=${exactTime(event.at)}>${timeOfDay(event.at)}</time>
            <span class="type">${event.type}</span>
            <span class=${event.data?.state === "failed" ? "what failed-word" : "what"}>${words(event)}</span>
          </div>`)}
        ${shown.length ? null : html`<p class="log-line quiet">No entries yet.</p>`}
      </div>
    <//>
  `;
};
