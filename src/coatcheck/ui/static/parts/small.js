// Small components that every page uses.

import { useNow } from "../polling.js";
import { attempt } from "../messages.js";
import { classes, html, useState } from "../view.js";
import { exactTime, relative, shortTime } from "../format.js";
import { Icon } from "./icons.js";

export const State = ({ state, reason }) => html`
  <span class=${`state state-${state}`}>
    <span class="state-dot" aria-hidden="true"></span>${state}
    ${reason && reason !== state && reason !== "error"
      ? html`<span class="state-reason">${reason}</span>`
      : null}
  </span>
`;

// A local time, with the exact one on hover; `how` is near (3 min ago) or clock.
export const Time = ({ at, how = "near" }) => {
  const now = useNow(how === "near" ? 5000 : 60000);
  if (!at) return html`<span class="quiet">–</span>`;
  return html`
    <time datetime=${at} title=${exactTime(at)}>
      ${how === "near" ? relative(at, now) : shortTime(at, now)}
    </time>
  `;
};

export const Progress = ({ progress }) => {
  if (!progress) return null;
  const { done, total, message } = progress;
  const known = total > 0;
  const percent = known ? Math.min(100, Math.floor((100 * done) / total)) : null;
  return html`
    <div class="progress">
      ${known
        ? html`<progress value=${done} max=${total} aria-label=${message || "progress"}></progress>
            <span class="number">${percent}%</span>`
        : html`<span class="number">${done}</span>`}
      ${message ? html`<span class="progress-message">${message}</span>` : null}
    </div>
  `;
};

export const Copy = ({ text, label = "Copy" }) => {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await attempt(() => navigator.clipboard.writeText(text), "Copied.");
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`
    <button type="button" class="bare" title=${label} aria-label=${label} onClick=${copy}>
      ${copied ? "✓" : html`<${Icon} name="copy" />`}
    </button>
  `;
};

export const CommandLine = ({ text }) => html`
  <div class="command"><pre tabindex="0">${text}</pre><${Copy} text=${text} label="Copy the command" /></div>
`;

export const Empty = ({ title, children }) => html`
  <div class="empty"><h2>${title}</h2>${children}</div>
`;

export const Failure = ({ error }) =>
  error
    ? html`<p class="notice bad" role="alert">
        ${error.name === "TypeError" ? "The server does not respond." : error.message}
      </p>`
    : null;

export const Waiting = () => html`<p class="quiet waiting" role="status">Loading …</p>`;

export const Panel = ({ title, actions, children, label, flush }) => html`
  <section class=${classes("panel", flush && "flush")} aria-label=${label ?? title}>
    ${title || actions
      ? html`<header><h2>${title}</h2><div class="actions">${actions}</div></header>`
      : null}
    ${children}
  </section>
`;

export const Labels = ({ labels }) => {
  const entries = Object.entries(labels ?? {});
  if (!entries.length) return null;
  return html`<span class="labels">
    ${entries.map(([name, value]) => html`<span class="label">${name}<b>${value}</b></span>`)}
  </span>`;
};

export const Fact = ({ name, wide, children }) => html`<div class=${classes("fact", wide && "whole-row")}><dt>${name}</dt><dd>${children}</dd></div>`;
