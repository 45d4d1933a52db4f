// The kinds of jobs that are declared here, and which of them the reader can hand in.

import { get } from "./api.js";
import { usePolled } from "./polling.js";
import { example } from "./schema.js";
import { may } from "./session.js";

export const useKinds = () => usePolled(() => get("/v1/kinds"), [], 60_000);

// Of an internal kind the jobs are made by a surface, and by nobody else.
export const canSubmit = ({ name, internal }) => !internal && may("jobs:write", name);

// An example submit: of the first kind whose input has an example.
export const firstExample = (kinds) =>
  kinds.map(({ name, input_schema: schema }) => ({ kind: name, input: example(schema) })).find(({ input }) => input !== undefined);
