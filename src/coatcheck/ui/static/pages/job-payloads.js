// The input and the result of a job.

import { get, send } from "../api.js";
import { save } from "../parts/download.js";
import { Payload } from "../parts/payload.js";
import { Panel } from "../parts/small.js";
import { attempt } from "../messages.js";
import { html, useEffect, useState } from "../view.js";
import { size } from "../format.js";

const API = "api";
const LARGEST_SHOWN = 1_000_000;

// Loads a payload; a large one only on request.
const usePayload = (path, version, wanted = true) => {
  const [state, setState] = useState({});
  useEffect(() => {
    if (!wanted) return undefined;
    const stop = new AbortController();
    const read = async () => {
      const answer = await send("GET", path, { headers: { Accept: "*/*" }, signal: stop.signal });
      const length = Number(answer.headers.get("content-length") ?? 0);
      const isJson = (answer.headers.get("content-type") ?? "").includes("json");
      if (!isJson || length > LARGEST_SHOWN) {
        stop.abort();
        return setState({ large: length });
      }
      return setState({ value: JSON.parse(await answer.text()) });
    };
    read().catch((error) => error.name !== "AbortError" && setState({ error }));
    return () => stop.abort();
  }, [path, version, wanted]);
  return state;
};

const Large = ({ path, name, bytes }) => html`
  <p><button type="button" onClick=${() => attempt(() => save(path, name))}>
    Download${bytes ? ` ${size(bytes)}` : ""}
  </button></p>
`;

export const Input = ({ job }) => {
  const path = `/v1/jobs/${encodeURIComponent(job.id)}/input`;
  const { value, large, error } = usePayload(path, "");
  return html`
    <${Panel} title="Input">
      ${error ? html`<p class="quiet">${error.message}</p>` : null}
      ${large !== undefined ? html`<${Large} path=${path} name=${`${job.id}-input.json`} bytes=${large} />` : null}
      ${value !== undefined ? html`<${Payload} value=${value} label="the input" />` : null}
    <//>
  `;
};

export const Result = ({ job }) => {
  // The result endpoint of a surface may return something else than the stored result: the
  // response of a service, for example.
  const isElsewhere = job.surface !== API || job.result_omitted === true || job.result === null;
  const apart = job.state === "succeeded" && isElsewhere;
  const { value, large, error } = usePayload(job.links.result, job.finished_at, apart);
  const shown = apart ? value : job.result;
  return html`
    <${Panel} title="Result">
      ${job.state !== "succeeded"
        ? html`<p class="quiet">${job.finished_at ? "No result." : "No result yet."}</p>`
        : html`
            ${error ? html`<p class="quiet">${error.message}</p>` : null}
            ${large !== undefined ? html`<${Large} path=${job.links.result} name=${`${job.id}-result`} bytes=${large} />` : null}
            ${shown !== undefined ? html`<${Payload} value=${shown} label="the result" />` : null}`}
    <//>
  `;
};
