// A job on one axis of time: the states it went through, and each of its steps as a bar. What waits
// is hatched, a tick in a bar is a try that was made again.

import { useNow } from "../polling.js";
import { html, useEffect, useRef, useState } from "../view.js";
import { span } from "../format.js";

const ROW = 26;
const BAR = 14;
const TOP = 24;
const MOST_ROWS = 200;

const ms = (moment) => new Date(moment).getTime();

// The stretches between changes of state, the last of them up to now.
const stretches = (events, until) => {
  const changes = events.filter(({ type }) => type === "state");
  return changes
    .map(({ at, data }, index) => ({
      state: data.state,
      attempt: data.attempt,
      from: ms(at),
      to: index + 1 < changes.length ? ms(changes[index + 1].at) : until,
    }))
    .filter(({ state }) => ["queued", "running", "waiting"].includes(state));
};

// When tries of a step failed that were made again. They may be written together with the next one.
const failedTries = (step, events) =>
  step.op !== "step"
    ? []
    : events
        .filter(({ type, data }) => type === "step" && data.seq === step.seq && data.error && data.state === "waiting")
        .map(({ at }) => (step.attempts > 1 ? Math.min(ms(at), ms(step.started_at)) : ms(at)));

// What is known of a step's beginning is when its last try began: those before it lie between the
// end of the step before and that.
const firstTry = (steps, index, begin) => {
  const step = steps[index];
  if (step.op !== "step" || step.attempts < 2) return null;
  const before = steps.slice(0, index).map(({ finished_at: at }) => (at ? ms(at) : 0)).filter((at) => at <= ms(step.started_at));
  return Math.max(begin, ...before);
};

const useWidth = () => {
  const place = useRef(null);
  const [width, setWidth] = useState(720);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  return [place, width];
};

const Bar = ({ x, width, y, kind, title }) => html`
  <rect class=${`bar bar-${kind}`} x=${x} y=${y} width=${Math.max(3, width)} height=${BAR} rx="3">
    <title>${title}</title>
  </rect>
`;

export const Timeline = ({ job, steps, events }) => {
  const [place, width] = useWidth();
  const ended = job.finished_at !== null;
  const now = useNow(ended ? 3_600_000 : 500);
  const begin = ms(job.created_at);
  const last = steps.reduce((most, step) => Math.max(most, ms(step.finished_at ?? step.started_at)), begin);
  const end = Math.max(ended ? ms(job.finished_at) : now, last, begin + 10);
  const left = Math.min(190, Math.floor(width * 0.32));
  const right = 64;
  const x = (moment) => left + ((moment - begin) / (end - begin)) * Math.max(40, width - left - right);
  const shown = steps.slice(0, MOST_ROWS);
  const height = TOP + ROW * (shown.length + 1) + 6;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => begin + part * (end - begin));
  return html`
    <div ref=${place} class="timeline">
      <svg width=${width} height=${height} role="img"
        aria-label=${`Timeline of ${span(end - begin)}: ${steps.length} steps`}>
        <defs>
          <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <rect class="hatch-ground" width="6" height="6" />
            <line class="hatch-line" x1="0" y1="0" x2="0" y2="6" />
          </pattern>
        </defs>
        ${ticks.map((at, index) => html`
          <line class="timeline-grid" x1=${x(at)} x2=${x(at)} y1=${TOP - 6} y2=${height} />
          ${width > 520 || index % 2 === 0
            ? html`<text class="timeline-tick" x=${x(at)} y="12" text-anchor=${index === 0 ? "start" : "middle"}>
                ${index === 0 ? "0" : span(at - begin)}
              </text>`
            : null}
        `)}
        <text class="timeline-name quiet-text" x="0" y=${TOP + 15}>the job</text>
        ${stretches(events, end).map((each) => html`
          <${Bar} x=${x(each.from)} width=${x(each.to) - x(each.from)} y=${TOP + 4} kind=${`job-${each.state}`}
            title=${`${each.state}${each.attempt ? `, attempt ${each.attempt}` : ""}: ${span(each.to - each.from)}`} />
        `)}
        ${shown.map((step, index) => {
          const y = TOP + ROW * (index + 1);
          const from = ms(step.started_at);
          const to = step.finished_at ? ms(step.finished_at) : end;
          const waits = ["sleep", "event", "gather"].includes(step.op) || step.state === "waiting";
          const name = step.key ? `${step.name} [${step.key}]` : step.name;
          const letters = Math.floor(left / 7.2);
          const first = firstTry(shown, index, job.started_at && steps.length ? Math.min(begin + 1, ms(steps[0].started_at)) : begin);
          return html`
            <text class="timeline-name" x="0" y=${y + 15}>
              ${name.length > letters ? `${name.slice(0, letters - 1)}…` : name}
              <title>${name}</title>
            </text>
            ${first === null ? null : html`
              <${Bar} x=${x(first)} width=${x(from) - x(first)} y=${y + 4} kind="again" title=${`${name}: earlier tries`} />`}
            <${Bar} x=${x(from)} width=${x(to) - x(from)} y=${y + 4}
              kind=${step.state === "failed" ? "failed" : waits ? "waiting" : step.state}
              title=${`${name}: ${step.state}, ${span(to - from)}, ${step.attempts} ${step.attempts === 1 ? "try" : "tries"}`} />
            ${failedTries(step, events).map((at) => html`
              <line class="timeline-retry" x1=${x(at)} x2=${x(at)} y1=${y + 2} y2=${y + BAR + 6} />
            `)}
            <text class="timeline-span" x=${x(to) + 6} y=${y + 15}>
              ${span(to - from)}${step.attempts > 1 ? ` ×${step.attempts}` : ""}
            </text>
          `;
        })}
      </svg>
      ${steps.length > MOST_ROWS
        ? html`<p class="quiet">The first ${MOST_ROWS} of ${steps.length} steps are drawn.</p>`
        : null}
    </div>
  `;
};
