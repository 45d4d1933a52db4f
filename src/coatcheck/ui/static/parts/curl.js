// A call of the API as a line for a shell: it does what it says when it is pasted there. The key,
// where one is needed, is read from where the command line has it; a page is no place to print it.

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
