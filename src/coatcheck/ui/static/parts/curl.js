// An API request as a shell command. The key,
// if one is needed, comes from an environment variable, so that the page does not show it.

import { addressed } from "../api.js";
import { server } from "../session.js";
import { html } from "../view.js";
import { CommandLine } from "./small.js";

const KEY = "COATCHECK_API_KEY";

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const lineOf = ({ method = "POST", path, body, form }) => {
  const address = `${location.origin}${addressed(path)}`;
  const parts = [`curl -i${method === "POST" ? "" : ` -X ${method}`} ${address.includes("?") ? quoted(address) : address}`];
  if (server.get().needs_key) parts.push(`-H "Authorization: Bearer $${KEY}"`);
  if (form) parts.push(...Object.entries(form).map(([name, value]) => `-F ${name}=${value}`));
  else parts.push("-H 'content-type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
  return parts.join(" \\\n     ");
};

export const Curl = (call) => html`
  <${CommandLine} text=${lineOf(call)} />
  ${server.get().needs_key ? html`<p class="quiet">with your key in <code>${KEY}</code></p>` : null}
`;
