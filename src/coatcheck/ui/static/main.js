// The frame around every page: navigation, caller and sign-in.

import { get } from "./api.js";
import { Audit } from "./pages/audit.js";
import { Collections, mayReadDocuments } from "./pages/collections.js";
import { SignIn } from "./pages/sign-in.js";
import { Job } from "./pages/job.js";
import { Jobs } from "./pages/jobs.js";
import { Keys } from "./pages/keys.js";
import { Overview } from "./pages/overview.js";
import { Schedules } from "./pages/schedules.js";
import { TryIt } from "./pages/try.js";
import { Webhooks } from "./pages/webhooks.js";
import { Question, Said } from "./parts/dialog.js";
import { Icon, Mark } from "./parts/icons.js";
import { useRoute } from "./router.js";
import { isOperator, key, logOut, may, mayForAll, reachable, server, tenant } from "./session.js";
import { useStore } from "./store.js";
import { nextTheme, theme } from "./theme.js";
import { html, render, useEffect, useRef, useState } from "./view.js";

const PAGES = [
  { path: "overview", name: "Overview", page: Overview, open: isOperator },
  { path: "jobs", name: "Jobs", page: Jobs, open: () => may("jobs:read") },
  { path: "schedules", name: "Schedules", page: Schedules, open: () => mayForAll("jobs:read") },
  { path: "webhooks", name: "Webhooks", page: Webhooks, open: () => mayForAll("jobs:read") },
  { path: "collections", name: "Collections", page: Collections, open: mayReadDocuments },
  { path: "keys", name: "Keys and tenants", page: Keys, open: () => may("admin") },
  { path: "audit", name: "Audit log", page: Audit, open: () => may("admin") },
  { path: "try", name: "Submit", page: TryIt, open: () => may("jobs:write") },
];

const Tools = () => {
  const shade = useStore(theme);
  const info = useStore(server);
  const named = useStore(tenant);
  const { caller, version } = info;
  return html`
    <div class="side-foot">
      <div class="who" title=${caller.scopes.join(", ")}>
        ${named ? html`for <b>${named}</b>` : html`<b>${caller.tenant}</b>`}
        ${caller.key_id ? html`<span class="mono"> ${caller.key_id.slice(0, 6)}</span>` : null}
      </div>
      <div class="version">Coatcheck ${version}${info.needs_key ? null : html` · <a href="/docs">API</a>`}</div>
      <div class="side-tools">
        <button type="button" class="bare" onClick=${nextTheme} title=${`Theme: ${shade}`}
          aria-label=${`Theme: ${shade}. Change`}><${Icon} name=${shade} /></button>
        ${key.get()
          ? html`<button type="button" class="bare" onClick=${logOut} title="Sign out" aria-label="Sign out">
              <${Icon} name="leave" />
            </button>`
          : null}
      </div>
    </div>
  `;
};

const Frame = () => {
  const { parts } = useRoute();
  const online = useStore(reachable);
  const open = PAGES.filter((page) => page.open());
  const current = open.find(({ path }) => path === parts[0]) ?? open[0];
  const content = useRef(null);
  const where = parts.join("/");
  useEffect(() => {
    document.title = `${current ? current.name : "No access"} · Coatcheck`;
    content.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [where]);
  const Page = current && (current.path === "jobs" && parts[1] ? Job : current.page);
  return html`
    <div class="frame">
      <aside class="side">
        <a class="skip" href=${location.hash} onClick=${(event) => (event.preventDefault(), content.current.focus())}>
          Skip to content
        </a>
        <a class="brand" href="#/"><${Mark} />Coatcheck</a>
        <nav aria-label="Pages">
          ${open.map(
            ({ path, name }) => html`
              <a href=${`#/${path}`} aria-current=${current?.path === path ? "page" : undefined}>
                <${Icon} name=${path} />${name}
              </a>
            `,
          )}
        </nav>
        <${Tools} />
      </aside>
      <div>
        ${online ? null : html`<p class="offline" role="alert">The server does not respond; retrying …</p>`}
        <main ref=${content} tabindex="-1">
          ${Page
            ? html`<${Page} key=${parts[1] ?? ""} id=${parts[1]} />`
            : html`<p class="notice warn">This key has no scope for any page.</p>`}
        </main>
      </div>
    </div>
    <${Question} />
    <${Said} />
  `;
};

const Cockpit = () => {
  const text = useStore(key);
  const info = useStore(server);
  const [refused, setRefused] = useState(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let timer = 0;
    const enter = async () => {
      try {
        const found = await get("/v1/server");
        setRefused(null);
        server.set(found);
      } catch (error) {
        setRefused(error);
        if (error.name === "TypeError" || error.status >= 500) timer = setTimeout(() => setTurn(turn + 1), 1500);
      }
    };
    if (!server.get()) enter();
    return () => clearTimeout(timer);
  }, [text, info, turn]);
  if (info) return html`<${Frame} />`;
  if (refused) return html`<${SignIn} refused=${refused} tried=${text} again=${() => setTurn(turn + 1)} />`;
  return null;
};

render(html`<${Cockpit} />`, document.getElementById("cockpit"));
