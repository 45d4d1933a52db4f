// Renders /openapi.json. Everything is inserted as text: a description is never markup.

const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

const code = (text) => element("code", {}, text);

// Text between backticks is code.
const prose = (text) => text.split("`").map((part, at) => (at % 2 ? code(part) : part));

// Resolves references up to a few levels, so that recursive schemas end.
const resolve = (api, schema, depth = 0) => {
  if (Array.isArray(schema)) return schema.map((part) => resolve(api, part, depth));
  if (schema === null || typeof schema !== "object") return schema;
  if (typeof schema.$ref === "string") {
    const name = schema.$ref.split("/").pop();
    return depth > 3 ? { "…": name } : resolve(api, api.components.schemas[name] ?? {}, depth + 1);
  }
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, resolve(api, value, depth)]),
  );
};

const schemaBlock = (api, media, content) =>
  element(
    "details",
    {},
    element("summary", {}, code(media)),
    element("div", {}, element("pre", {}, JSON.stringify(resolve(api, content.schema), null, 2))),
  );

const parameterTable = (parameters) =>
  element(
    "table",
    {},
    element("tr", {}, ...["parameter", "in", "description"].map((text) => element("th", {}, text))),
    ...parameters.map((one) =>
      element(
        "tr",
        {},
        element("td", {}, code(one.name + (one.required ? " *" : ""))),
        element("td", {}, one.in),
        element("td", {}, ...prose(one.description ?? one.schema.description ?? "")),
      ),
    ),
  );

const example = (method, path, operation) => {
  const url = location.origin + path;
  if (operation.operationId === "submitJob") {
    const body = `'{"kind":"…","input":…}'`;
    return `curl -H 'content-type: application/json' -d ${body} ${url}`;
  }
  return `curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}${url}`;
};

const call = (api, path, method, operation) =>
  element(
    "details",
    { id: operation.operationId },
    element(
      "summary",
      {},
      element("span", { className: "method" }, method.toUpperCase()),
      code(path),
      element("span", { className: "what" }, operation.summary),
    ),
    element(
      "div",
      {},
      element("p", {}, ...prose(operation.description)),
      element("pre", {}, example(method, path, operation)),
      operation.parameters.length ? parameterTable(operation.parameters) : null,
      operation.requestBody ? element("h3", {}, "Request body") : null,
      ...Object.entries(operation.requestBody?.content ?? {}).map(([media, content]) =>
        schemaBlock(api, media, content),
      ),
      element("h3", {}, "Responses"),
      ...Object.entries(operation.responses).flatMap(([status, answer]) => [
        element("p", {}, code(status), " ", ...prose(answer.description)),
        ...Object.entries(answer.content ?? {})
          .filter(([media]) => media !== "application/problem+json")
          .map(([media, content]) => schemaBlock(api, media, content)),
      ]),
    ),
  );

// A link to an operation, such as /docs#submitJob, expands it.
const openNamed = () => {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!(named instanceof HTMLDetailsElement)) return;
  named.open = true;
  named.scrollIntoView();
};

const show = async () => {
  const main = document.getElementById("calls");
  try {
    const answer = await fetch("/openapi.json");
    if (!answer.ok) throw new Error(`the server responded with ${answer.status}`);
    const api = await answer.json();
    const sections = api.tags.map(({ name }) =>
      element(
        "section",
        {},
        element("h2", {}, name),
        ...Object.entries(api.paths).flatMap(([path, calls]) =>
          Object.entries(calls)
            .filter(([, operation]) => operation.tags.includes(name))
            .map(([method, operation]) => call(api, path, method, operation)),
        ),
      ),
    );
    main.replaceChildren(...sections);
    openNamed();
  } catch (error) {
    main.replaceChildren(element("p", {}, `The description could not be loaded: ${error.message}`));
  }
};

addEventListener("hashchange", openNamed);
show();
