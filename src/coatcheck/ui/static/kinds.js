// The kinds of jobs that are declared here, and which of them the reader can hand in.

import { get } from "./api.js";
import { usePolled } from "./polling.js";
import { example } from "./schema.js";
import { may } from "./session.js";

export const useKinds = () => usePolled(() => get("/v1/kinds"), [], 60_000);

// Of an internal kind the jobs are made by a surface, and by nobody else.
export const canBeHandedIn = ({ name, internal }) => !internal && may("jobs:write", name);

// A job that could be handed in: of the first kind that an example of its input can be given for.
export const firstExample = (kinds) =>
  kinds.map(({ name, input_schema: schema }) => ({ kind: name, input: example(schema) })).find(({ input }) => input !== undefined);
