// One job: its state, steps, input, result and events.

import { post, remove } from "../api.js";
import { Failure, Fact, Labels, Panel, Progress, State, Time, Waiting, Copy } from "../parts/small.js";
import { Timeline } from "../parts/timeline.js";
import { go, to } from "../router.js";
import { attempt, confirm } from "../messages.js";
import { may } from "../session.js";
import { html, useEffect } from "../view.js";
import { span } from "../format.js";
import { Children } from "./job-children.js";
import { Deliveries } from "./deliveries.js";
import { Files } from "./job-files.js";
import { Log } from "./job-log.js";
import { Input, Result } from "./job-payloads.js";
import { Steps } from "./job-steps.js";
import { useJob } from "./job-state.js";

const ENDED = ["succeeded", "failed", "cancelled"];

const pathOf = (job) => `/v1/jobs/${encodeURIComponent(job.id)}`;

const Actions = ({ job, refresh }) => {
  const ended = ENDED.includes(job.state);
  const cancel = () => attempt(() => post(`${pathOf(job)}/cancel`),
    (after) => (after.state === "cancelled" ? "The job is cancelled." : "Cancellation requested.")).then(refresh);
  const resume = () => attempt(() => post(`${pathOf(job)}/resume`), "The job resumes from its last checkpoint.").then(refresh);
  const fork = async () => {
    await attempt(async () => go(to("jobs", (await post(`${pathOf(job)}/fork`, { from_step: 0 })).id)), "A new job with the same input.");
  };
  const erase = async () => {
    const yes = await confirm({
      title: "Delete this job?", yes: "Delete", danger: true,
      text: "Its input, result, events, steps and artifacts are deleted too. This cannot be undone.",
    });
    if (yes && (await attempt(() => remove(pathOf(job)), "The job is deleted."))) go("#/jobs");
  };
  return html`
    <div class="actions">
      ${!ended && may("jobs:cancel", job.kind) ? html`<button type="button" class="danger" onClick=${cancel}>Cancel</button>` : null}
      ${["failed", "cancelled"].includes(job.state) && may("jobs:write", job.kind)
        ? html`<button type="button" class="main" onClick=${resume}>Resume</button>` : null}
      ${ended && may("jobs:write", job.kind) ? html`
        <button type="button" onClick=${fork}>Run again</button>
        <button type="button" class="danger" onClick=${erase}>Delete</button>` : null}
    </div>
  `;
};

const Because = ({ job }) => {
  // A lease is no news for a running job.
  const reasons = (job.explain ?? []).filter(({ code }) => code !== "leased");
  if (ENDED.includes(job.state) || !reasons.length) return null;
  return html`
    <${Panel} title=${job.state === "running" ? "Why is it still running?" : "Why is it waiting?"}>
      <ul class="because">
        ${reasons.map(({ code, message }) => html`<li><span class="chip">${code}</span>${message}</li>`)}
      </ul>
    <//>
  `;
};

const Wrong = ({ error }) => {
  if (!error) return null;
  return html`
    <${Panel} title="Error" actions=${html`
      <span class="chip bad">${error.code}</span>
      <span class="chip">${error.retryable ? "retryable" : "final"}</span>`}>
      <p class="error-message">${error.message}</p>
      ${error.detail ? html`<pre class="traceback" tabindex="0" aria-label="Traceback">${error.detail}</pre>` : null}
    <//>
  `;
};

const History = ({ events }) => {
  const changes = events.filter(({ type }) => type === "state");
  return html`
    <ol class="history" aria-label="State history">
      ${changes.slice(-30).map(({ seq, at, data }) => html`
        <li key=${seq}><${State} state=${data.state} reason=${data.reason} /><${Time} at=${at} how="clock" /></li>`)}
    </ol>
  `;
};

const Facts = ({ job }) => html`
  <dl class="facts">
    <${Fact} name="Queue">${job.queue}${job.position ? html` <span class="chip">position ${job.position}</span>` : null}<//>
    <${Fact} name="Attempts">${job.attempt} of ${job.max_attempts}<//>
    <${Fact} name="Created"><${Time} at=${job.created_at} how="clock" /><//>
    <${Fact} name="Started"><${Time} at=${job.started_at} how="clock" /><//>
    ${job.finished_at ? html`<${Fact} name="Finished"><${Time} at=${job.finished_at} how="clock" /><//>` : null}
    ${job.started_at && job.finished_at
      ? html`<${Fact} name="Last attempt">${span(new Date(job.finished_at) - new Date(job.started_at))}<//>` : null}
    ${!job.finished_at && job.run_at && new Date(job.run_at) > new Date()
      ? html`<${Fact} name="Scheduled"><${Time} at=${job.run_at} /><//>` : null}
    ${job.expires_at ? html`<${Fact} name="Expires"><${Time} at=${job.expires_at} /><//>` : null}
    <${Fact} name="Priority">${job.priority}<//>
    ${job.phase ? html`<${Fact} name="Phase">${job.phase}<//>` : null}
    ${job.parent ? html`<${Fact} name="Parent"><a class="mono" href=${to("jobs", job.parent)}>${job.parent}</a><//>` : null}
    ${job.forked_from ? html`<${Fact} name="Forked from"><a class="mono" href=${to("jobs", job.forked_from)}>${job.forked_from}</a><//>` : null}
    ${Object.keys(job.labels).length ? html`<${Fact} name="Labels"><${Labels} labels=${job.labels} /><//>` : null}
    ${(job.explain ?? []).filter(({ code }) => code === "leased").map(({ message }) => html`<${Fact} name="Worker" wide>${message}<//>`)}
  </dl>
`;

export const Job = ({ id }) => {
  const { job, steps, events, leftOut, error, refresh } = useJob(id);
  const title = job ? `${job.kind} ${job.state}` : "";
  useEffect(() => {
    if (title) document.title = `${title} · Coatcheck`;
  }, [title]);
  if (!job) {
    return error
      ? html`<div class="stack"><a class="crumb" href="#/jobs">All jobs</a><${Failure} error=${error} /></div>`
      : html`<${Waiting} />`;
  }
  const live = ["running", "waiting"].includes(job.state);
  // An unreachable server is reported above the page.
  const refused = error?.name === "TypeError" ? null : error;
  return html`
    <div class="stack">
      <div class="job-head">
        <div class="job-title">
          <a class="crumb" href="#/jobs">Jobs</a>
          <h1>${job.kind}<${State} state=${job.state} reason=${job.reason} /></h1>
          <span class="id mono">${job.id}<${Copy} text=${job.id} label="Copy the id" /></span>
        </div>
        <${Actions} job=${job} refresh=${refresh} />
      </div>
      <${Failure} error=${refused} />
      ${live && job.progress ? html`<${Panel} label="Progress"><div class="wide"><${Progress} progress=${job.progress} /></div><//>` : null}
      <${Wrong} error=${job.error} />
      <${Because} job=${job} />
      <${Panel} label="Details"><${Facts} job=${job} /><//>
      <${Panel} title="Timeline">
        <div class="stack"><${History} events=${events} /><${Timeline} job=${job} steps=${steps} events=${events} /></div>
      <//>
      <div class="columns"><${Input} job=${job} /><${Result} job=${job} /></div>
      <${Files} job=${job} />
      <${Steps} job=${job} steps=${steps} />
      <${Log} events=${events} leftOut=${leftOut} job=${job} />
      <${Children} job=${job} />
      <${Deliveries} path=${`${pathOf(job)}/deliveries`} quietly />
    </div>
  `;
};
