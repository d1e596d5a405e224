import {
  NodeApiError,
  NodeConnectionTypes,
  NodeOperationError,
  type IDataObject,
  type IExecuteFunctions,
  type IHttpRequestMethods,
  type INodeExecutionData,
  type INodeProperties,
  type INodeType,
  type INodeTypeDescription,
  type JsonObject,
} from "n8n-workflow";

type Answer = { data: IDataObject };
type Operation = (node: IExecuteFunctions, items: INodeExecutionData[]) => Promise<INodeExecutionData[]>;

const BATCH = 100; // addresses of one request
const PAGE = 1_000; // rows of one request
const WAIT = 50; // seconds of one request that waits for a job
const ENDED = new Set(["completed", "failed", "cancelled"]);

const only = (...operations: string[]) => ({ show: { operation: operations } });
const email: INodeProperties = {
  displayName: "Email",
  name: "email",
  type: "string",
  default: "={{ $json.email }}",
  placeholder: "name@example.com",
  displayOptions: only("check", "submit"),
  description: "The address of an item",
};
const mode: INodeProperties = {
  displayName: "Mode",
  name: "mode",
  type: "options",
  default: "deep",
  displayOptions: only("check", "submit", "submitFile"),
  options: [
    { name: "Fast", value: "fast", description: "Syntax and lists" },
    { name: "Medium", value: "medium", description: "And DNS" },
    { name: "Deep", value: "deep", description: "And the mail server is asked" },
  ],
};
const operation: INodeProperties = {
  displayName: "Operation",
  name: "operation",
  type: "options",
  noDataExpression: true,
  default: "check",
  options: [
    { name: "Check Addresses", value: "check", action: "Check addresses", description: "Add a verdict to every item" },
    { name: "Submit a List", value: "submit", action: "Submit a list", description: "Start a job with the addresses of all items" },
    { name: "Submit a File", value: "submitFile", action: "Submit a file", description: "Start a job with a file" },
    { name: "Wait for a Job", value: "wait", action: "Wait for a job", description: "Go on when a job has ended" },
    { name: "Get Results", value: "results", action: "Get results", description: "Make an item of every row of a job" },
  ],
};
const others: INodeProperties[] = [
  {
    displayName: "Input Binary Field",
    name: "binary",
    type: "string",
    default: "data",
    displayOptions: only("submitFile"),
    description: "The field that holds the file: CSV, XLSX, JSON lines or Parquet",
  },
  {
    displayName: "Job ID",
    name: "jobId",
    type: "string",
    default: "={{ $json.job_id }}",
    displayOptions: only("wait", "results"),
  },
  {
    displayName: "Longest Wait",
    name: "longest",
    type: "number",
    default: 3600,
    displayOptions: only("wait"),
    description: "Seconds; a job that has not ended by then is an error",
  },
  {
    displayName: "Verdicts",
    name: "status",
    type: "multiOptions",
    default: [],
    displayOptions: only("results"),
    options: ["valid", "risky", "invalid"].map((value) => ({ name: value, value })),
    description: "Only rows with these; none chosen: all rows",
  },
];

async function ask(
  node: IExecuteFunctions,
  method: IHttpRequestMethods,
  path: string,
  more: { qs?: IDataObject; body?: IDataObject | Buffer; headers?: IDataObject } = {},
): Promise<IDataObject> {
  const { url } = await node.getCredentials<{ url: string; key: string }>("mailsiftApi");
  try {
    const answer = (await node.helpers.httpRequestWithAuthentication.call(node, "mailsiftApi", {
      method,
      url: `${url.replace(/\/+$/, "")}${path}`,
      json: !Buffer.isBuffer(more.body),
      arrayFormat: "repeat",
      ...more,
    })) as Answer | string;
    return (typeof answer === "string" ? (JSON.parse(answer) as Answer) : answer).data;
  } catch (error) {
    throw new NodeApiError(node.getNode(), error as JsonObject);
  }
}

const text = (node: IExecuteFunctions, name: string, item: number) => String(node.getNodeParameter(name, item, ""));
const texts = (node: IExecuteFunctions, name: string, items: INodeExecutionData[]) => items.map((_, n) => text(node, name, n));
const made = (data: IDataObject, item: number): INodeExecutionData => ({ json: data, pairedItem: { item } });

/** Returns what comes of some items; where the workflow goes on after an error, the error of these alone. */
async function attempt(
  node: IExecuteFunctions,
  some: { item: INodeExecutionData; n: number }[],
  run: () => Promise<INodeExecutionData[]>,
): Promise<INodeExecutionData[]> {
  try {
    return await run();
  } catch (error) {
    if (!node.continueOnFail()) throw error;
    return some.map(({ item, n }) => made({ ...item.json, error: (error as Error).message }, n));
  }
}

/** Does the same for every item. */
const each =
  (run: (node: IExecuteFunctions, item: INodeExecutionData, n: number) => Promise<INodeExecutionData[]>): Operation =>
  async (node, items) =>
    (await Promise.all(items.map((item, n) => attempt(node, [{ item, n }], () => run(node, item, n))))).flat();

/** Returns every item with `mailsift`, the verdict on its address; a hundred are asked for at a time. */
const check: Operation = async (node, items) => {
  const found: INodeExecutionData[] = [];
  for (let start = 0; start < items.length; start += BATCH) {
    const some = items.slice(start, start + BATCH).map((item, n) => ({ item, n: start + n }));
    const verdicts = await attempt(node, some, async () => {
      const body = { emails: some.map(({ n }) => text(node, "email", n)), mode: text(node, "mode", 0) };
      const { results } = await ask(node, "POST", "/v1/email/batch-validate", { body });
      return some.map(({ item: { json, binary }, n }, i) => ({
        json: { ...json, mailsift: (results as IDataObject[])[i] },
        ...(binary && { binary }),
        pairedItem: { item: n },
      }));
    });
    found.push(...verdicts);
  }
  return found;
};

const submit: Operation = (node, items) =>
  attempt(node, items.map((item, n) => ({ item, n })), async () => {
    const body = { emails: texts(node, "email", items) };
    return [made(await ask(node, "POST", "/v1/bulk/jobs", { qs: { mode: text(node, "mode", 0) }, body }), 0)];
  });

const submitFile = each(async (node, item, n) => {
  const field = text(node, "binary", n);
  const body = await node.helpers.getBinaryDataBuffer(n, field);
  const qs = { mode: text(node, "mode", n), name: item.binary?.[field]?.fileName ?? "" };
  const headers = { "content-type": "application/octet-stream" };
  return [made(await ask(node, "POST", "/v1/bulk/jobs", { qs, body, headers }), n)];
});

const wait = each(async (node, _, n) => {
  const path = `/v1/bulk/jobs/${encodeURIComponent(text(node, "jobId", n))}`;
  const until = Date.now() + 1_000 * Number(node.getNodeParameter("longest", n, 3600));
  for (;;) {
    const left = Math.max(0, Math.min(WAIT, (until - Date.now()) / 1_000));
    const found = await ask(node, "GET", path, { qs: { wait: left } });
    if (ENDED.has(String(found["status"]))) return [made(found, n)];
    if (Date.now() >= until) throw new NodeOperationError(node.getNode(), "The job has not ended.", { itemIndex: n });
  }
});

const results: Operation = async (node, items) => {
  const found: INodeExecutionData[][] = [];
  for (const [n, item] of items.entries()) found.push(await attempt(node, [{ item, n }], () => rowsOf(node, n)));
  return found.flat();
};

async function rowsOf(node: IExecuteFunctions, n: number): Promise<INodeExecutionData[]> {
  const rows: INodeExecutionData[] = [];
  const path = `/v1/bulk/jobs/${encodeURIComponent(text(node, "jobId", n))}/results`;
  const status = node.getNodeParameter("status", n, []) as string[];
  let cursor = "";
  do {
    const page = await ask(node, "GET", path, { qs: { format: "json", limit: PAGE, status, ...(cursor && { cursor }) } });
    rows.push(...(page["rows"] as IDataObject[]).map((json) => made(json, n)));
    cursor = String(page["next_cursor"]);
  } while (cursor);
  return rows;
}

const OPERATIONS: Record<string, Operation> = { check, submit, submitFile, wait, results };

/** Asks a Mailsift installation about addresses. */
export class Mailsift implements INodeType {
  description: INodeTypeDescription = {
    displayName: "Mailsift",
    name: "mailsift",
    icon: "file:mailsift.svg",
    group: ["transform"],
    version: 1,
    subtitle: "={{ $parameter.operation }}",
    description: "Validate email addresses on your own machines",
    defaults: { name: "Mailsift" },
    inputs: [NodeConnectionTypes.Main],
    outputs: [NodeConnectionTypes.Main],
    usableAsTool: true,
    credentials: [{ name: "mailsiftApi", required: true }],
    properties: [operation, email, mode, ...others],
  };

  async execute(this: IExecuteFunctions): Promise<INodeExecutionData[][]> {
    const items = this.getInputData();
    const chosen = OPERATIONS[this.getNodeParameter("operation", 0) as string];
    if (chosen === undefined) throw new NodeOperationError(this.getNode(), "There is no such operation.");
    return [await chosen(this, items)];
  }
}
