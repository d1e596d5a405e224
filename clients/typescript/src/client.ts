import createClient, { type Client } from "openapi-fetch";

import { MailsiftError, problemOf, unwrap } from "./errors.js";
import type { components, operations, paths } from "./generated.js";
import { patient, sleep } from "./patience.js";

type Schemas = components["schemas"];
type Query<Name extends keyof operations> = NonNullable<operations[Name]["parameters"]["query"]>;

type Page = { data?: Schemas["Envelope_ResultsResponse_"]; error?: unknown; response: Response };

export type Job = Schemas["JobResponse"];
export type Verdict = Schemas["FullVerdict"];
export type ResultRow = Schemas["ResultRowResponse"];
export type Event = Schemas["EventResponse"];
export type FileFormat = Exclude<Schemas["ResultFormat"], "json">;
/** How one address or some are to be looked at. */
export type Options = Omit<Schemas["SingleRequest"], "email">;
/** How a list is to be validated; docs/api.md says what each of them does. */
export type ListOptions = Query<"create_job">;
/** Which rows of the results, and what of them. */
export type RowFilter = Omit<Query<"get_results">, "format" | "sort" | "limit" | "cursor">;

/** States a job does not leave. */
export const ENDED: ReadonlySet<Job["status"]> = new Set(["completed", "failed", "cancelled"]);
const WAIT = 50; // seconds of one call that waits for a job
const PAUSE = 1; // seconds before a stream that broke off is taken up again

/** A session with a Mailsift installation. */
export class Mailsift {
  /** Sends, with patience. */
  readonly #sending: (copy?: (request: Request) => Request) => (request: Request) => Promise<Response>;
  /** Takes every operation; `unwrap` takes its answers. */
  readonly api: Client<paths>;

  /**
   * @param url of the installation
   * @param key `svc_key_...`, or `svc_test_...` for test mode
   * @param options seconds to wait in all for an answer that comes with a Retry-After; another fetch
   */
  constructor(url: string, key: string, options: { patience?: number; fetch?: typeof fetch } = {}) {
    this.#sending = (copy) => patient(options.fetch ?? fetch, options.patience ?? 60, copy);
    this.api = createClient<paths>({
      baseUrl: url.replace(/\/+$/, ""),
      headers: { authorization: `Bearer ${key}` },
      fetch: this.#sending(),
    });
  }

  /** Returns the verdict on one address. */
  async check(email: string, options: Options = {}, signal?: AbortSignal): Promise<Verdict> {
    const body = { ...options, email };
    const found = unwrap(await this.api.POST("/v1/email/single-validate", { body, ...(signal && { signal }) }));
    if (!("result" in found)) throw new MailsiftError("The verdict lacks fields.", "", 200, "");
    return found;
  }

  /** Returns the verdicts on up to 100 addresses, in their order. */
  async checkMany(emails: string[], options: Options = {}, signal?: AbortSignal): Promise<Schemas["BatchVerdict"][]> {
    const body = { ...options, emails };
    const { results } = unwrap(await this.api.POST("/v1/email/batch-validate", { body, ...(signal && { signal }) }));
    return results.filter((one) => "result" in one);
  }

  /** Starts a job with a file (CSV, XLSX, JSON lines, Parquet ...) or addresses; the same key and list is taken once. */
  async submit(
    source: Blob | string[],
    options: ListOptions = {},
    { idempotencyKey, signal }: { idempotencyKey?: string; signal?: AbortSignal } = {},
  ): Promise<Job> {
    const header = idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey };
    const sent = { params: { query: options, header }, ...(signal && { signal }) };
    if (Array.isArray(source)) {
      return unwrap(await this.api.POST("/v1/bulk/jobs", { ...sent, body: { emails: source } }));
    }
    return unwrap(
      await this.api.POST("/v1/bulk/jobs", {
        ...sent,
        fetch: this.#sending((request) => new Request(request, { body: source })), // a clone would keep all of it
        body: source as unknown as string, // bytes are a string to OpenAPI
        bodySerializer: (body) => body as unknown as Blob,
        headers: { "content-type": "application/octet-stream" },
      }),
    );
  }

  /** Looks at a job; with `wait`, when it ends or after so many seconds (60 at most). */
  async job(jobId: string, wait = 0, signal?: AbortSignal): Promise<Job> {
    const params = { path: { job_id: jobId }, query: { wait } };
    return unwrap(await this.api.GET("/v1/bulk/jobs/{job_id}", { params, ...(signal && { signal }) }));
  }

  /** Returns a job once it has ended. */
  async wait(jobId: string, signal?: AbortSignal): Promise<Job> {
    for (;;) {
      const job = await this.job(jobId, WAIT, signal);
      if (ENDED.has(job.status)) return job;
    }
  }

  /** Yields a job whenever it has changed, until it has ended; a stream that breaks off is made anew. */
  async *follow(jobId: string, signal?: AbortSignal): AsyncGenerator<Job, void, void> {
    for (;;) {
      for await (const job of this.#stream(jobId, signal)) {
        yield job;
        if (ENDED.has(job.status)) return;
      }
      await sleep(PAUSE, signal);
    }
  }

  async *#stream(jobId: string, signal?: AbortSignal): AsyncGenerator<Job, void, void> {
    const params = { path: { job_id: jobId } };
    const answer = await this.api.GET("/v1/bulk/jobs/{job_id}/events", { params, parseAs: "stream", ...(signal && { signal }) });
    if (!answer.response.ok) throw problemOf(answer.error, answer.response.status);
    for await (const line of linesOf(answer.response, signal)) {
      if (line.startsWith("data: ")) yield JSON.parse(line.slice(6)) as Job;
    }
  }

  /** Yields the rows of a job with their verdicts, page by page. */
  async *results(
    jobId: string,
    rows: RowFilter = {},
    { sort = "row", page = 1000, signal }: { sort?: Schemas["SortBy"]; page?: number; signal?: AbortSignal } = {},
  ): AsyncGenerator<ResultRow, void, void> {
    let cursor = "";
    do {
      const query = { ...rows, format: "json" as const, sort, limit: page, cursor };
      const params = { path: { job_id: jobId }, query };
      const answer = await this.api.GET("/v1/bulk/jobs/{job_id}/results", { params, ...(signal && { signal }) });
      const found = unwrap(answer as Page); // of the formats this operation has, JSON was asked for
      yield* found.rows;
      cursor = found.next_cursor;
    } while (cursor !== "");
  }

  /** Returns the answer with the results of a job as a file; its body is a stream. */
  async download(
    jobId: string,
    { format = "csv", ...rows }: RowFilter & { format?: FileFormat } = {},
    signal?: AbortSignal,
  ): Promise<Response> {
    const params = { path: { job_id: jobId }, query: { ...rows, format } };
    const answer = await this.api.GET("/v1/bulk/jobs/{job_id}/results", { params, parseAs: "stream", ...(signal && { signal }) });
    if (!answer.response.ok) throw problemOf(answer.error, answer.response.status);
    return new Response(answer.data as unknown as ReadableStream, answer.response);
  }

  /** Deletes an ended job with everything that belongs to it. */
  async delete(jobId: string, signal?: AbortSignal): Promise<void> {
    const params = { path: { job_id: jobId } };
    const { error, response } = await this.api.DELETE("/v1/bulk/jobs/{job_id}", { params, ...(signal && { signal }) });
    if (!response.ok) throw problemOf(error, response.status);
  }

  /** Yields what happened, the oldest first, whether a webhook told of it or not. */
  async *events(which: Omit<Query<"list_events">, "cursor"> = {}, signal?: AbortSignal): AsyncGenerator<Event, void, void> {
    let cursor = "";
    do {
      const params = { query: { ...which, cursor } };
      const found = unwrap(await this.api.GET("/v1/events", { params, ...(signal && { signal }) }));
      yield* found.events;
      cursor = found.next_cursor;
    } while (cursor !== "");
  }
}

/** Yields the lines of an answer until it ends or breaks off. */
async function* linesOf(response: Response, signal?: AbortSignal): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder();
  const reader = response.body!.getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        if (signal?.aborted) throw error;
        return { done: true as const, value: undefined };
      });
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop()!;
      yield* lines;
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it broke off already
  }
}
