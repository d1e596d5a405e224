// Runs workflows with the node in n8n's own engine: workflow.cjs URL KEY, an array of workflows on standard input.
// Each is an array of steps, the parameters of the node one after the other; the first gets the items. Prints what came out.
require("reflect-metadata");
const { readFileSync } = require("node:fs");

const { ExecutionLifecycleHooks, WorkflowExecute } = require("n8n-core");
const { createRunExecutionData, Workflow } = require("n8n-workflow");

const { MailsiftApi } = require("../dist/credentials/MailsiftApi.credentials.js");
const { Mailsift } = require("../dist/nodes/Mailsift/Mailsift.node.js");

const [url, key] = process.argv.slice(2);
const credentials = { url, key };
const mailsift = new Mailsift();
const nodeTypes = { getByName: () => mailsift, getByNameAndVersion: () => mailsift, getKnownTypes: () => ({}) };
const credentialsHelper = {
  getDecrypted: async () => credentials,
  getParentTypes: () => [],
  isCredentialUsableByNode: () => true,
  preAuthentication: async () => undefined,
  authenticate: async (_credentials, _type, request) => {
    const wanted = new MailsiftApi().authenticate.properties.headers;
    const filled = Object.entries(wanted).map(([name, text]) => [name, text.slice(1).replace("{{$credentials.key}}", key)]);
    return { ...request, headers: { ...request.headers, ...Object.fromEntries(filled) } };
  },
};

async function run({ items, steps }) {
  const nodes = steps.map(({ onError, ...parameters }, n) => ({
    id: String(n),
    name: `step ${n}`,
    type: "n8n-nodes-mailsift.mailsift",
    typeVersion: 1,
    position: [0, 0],
    credentials: { mailsiftApi: { id: "1", name: "Mailsift" } },
    ...(onError && { onError }),
    parameters,
  }));
  const links = nodes.slice(1).map(({ name }, n) => [`step ${n}`, { main: [[{ node: name, type: "main", index: 0 }]] }]);
  const settings = { executionOrder: "v1" };
  const workflow = new Workflow({ id: "1", nodes, connections: Object.fromEntries(links), active: false, nodeTypes, settings });
  const hooks = new ExecutionLifecycleHooks("manual", "1", { id: "1" });
  const data = { credentialsHelper, hooks, executionId: "1", webhookWaitingBaseUrl: url, formWaitingBaseUrl: url, variables: {} };
  const start = { node: nodes[0], data: { main: [items] }, source: null };
  const execution = createRunExecutionData({ executionData: { nodeExecutionStack: [start], contextData: {}, metadata: {}, waitingExecution: {}, waitingExecutionSource: {} } });
  const done = await new WorkflowExecute(data, "manual", execution).processRunExecutionData(workflow);
  const { error, runData, lastNodeExecuted } = done.data.resultData;
  if (error) return { error: error.message, said: error.description };
  return runData[lastNodeExecuted].at(-1).data.main[0].map(({ json }) => json);
}

(async () => {
  const all = [];
  for (const one of JSON.parse(readFileSync(0, "utf8"))) all.push(await run(one));
  console.log(JSON.stringify(all));
})();
