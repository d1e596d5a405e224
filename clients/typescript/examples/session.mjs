// The session of docs/api.md, in JavaScript: node session.mjs URL KEY; it prints as JSON what it has found.
import { once } from "node:events";
import { createServer } from "node:http";

import { Mailsift, MailsiftError, unwrap, verifyWebhook, WebhookError } from "mailsift-client";

const LIST = "name,email\nJane,jane@example.com\nJoe,joe@@example.com\n";

/** Goes through it all. @param {string} url @param {string} key */
async function main(url, key) {
  const mailsift = new Mailsift(url, key);
  const one = await addresses(mailsift);
  const { jobId, ...list } = await aList(mailsift);
  return {
    ...one,
    ...list,
    ...(await again(mailsift, jobId)),
    ...(await schedule(mailsift, jobId)),
    ...(await webhook(mailsift)),
    events: (await all(mailsift.events({ type: ["bulk.validation.completed"], job_id: jobId }))).map((event) => event.type),
    rows_used: unwrap(await mailsift.api.GET("/v1/usage")).days.some((day) => day.rows > 0),
  };
}

/** Checks one address, another, and some. @param {Mailsift} mailsift */
async function addresses(mailsift) {
  const many = await mailsift.checkMany(["jane@example.com", "joe@mailbox-not-found.example.com", "jane@example.com"]);
  return {
    suggestion: (await mailsift.check("jane@gmial.com", { mode: "fast" })).suggestion,
    one: (await mailsift.check("jane@mailbox-full.example.com", { max_age: 0 })).result,
    many: many.map((verdict) => verdict.result),
  };
}

/** Sends a list twice with one key, follows it, fetches it as a file and by pages. @param {Mailsift} mailsift */
async function aList(mailsift) {
  const send = () => mailsift.submit(new Blob([LIST]), { mode: "fast", name: "first" }, { idempotencyKey: "first-list" });
  const [first, second] = [await send(), await send()];
  const jobId = first.job_id;
  let followed = "";
  for await (const job of mailsift.follow(jobId)) followed = job.status;
  const ended = await mailsift.wait(jobId);
  const csv = await mailsift.download(jobId, { columns: ["name", "email", "mailsift_result"] });
  const invalid = await mailsift.download(jobId, {
    format: "jsonl",
    status: ["invalid"],
    columns: ["email", "mailsift_result"],
  });
  const rows = await all(mailsift.results(jobId, { columns: ["name"] }, { sort: "score", page: 1 }));
  return {
    jobId,
    one_job: second.job_id === jobId,
    followed,
    counted: [ended.valid, ended.invalid],
    csv: (await csv.text()).trimEnd().split(/\r?\n/),
    invalid: (await invalid.text()).trimEnd().split("\n").map((line) => JSON.parse(line)),
    pages: rows.map((row) => [row.row, row.cells["name"], row.result]),
  };
}

/** Runs it again, once for two requests; and deletes what is not wanted. @param {Mailsift} mailsift @param {string} jobId */
async function again(mailsift, jobId) {
  const params = { path: { job_id: jobId }, header: { "Idempotency-Key": "again-1" } };
  const rerun = async () => unwrap(await mailsift.api.POST("/v1/bulk/jobs/{job_id}/rerun", { params })).job_id;
  const made = [await rerun(), await rerun()];
  await mailsift.wait(made[0] ?? "");
  const other = await mailsift.submit(["jane@example.com"], { mode: "fast" });
  await mailsift.wait(other.job_id);
  await mailsift.delete(other.job_id);
  const deleted = await mailsift.job(other.job_id).catch((error) => {
    if (error instanceof MailsiftError) return [error.status, error.code];
    throw error;
  });
  return { one_rerun: made[0] === made[1], deleted };
}

/** Runs the list by the clock, and once now. @param {Mailsift} mailsift @param {string} jobId */
async function schedule(mailsift, jobId) {
  const made = unwrap(
    await mailsift.api.POST("/v1/bulk/schedules", {
      body: { job_id: jobId, cron: "0 6 * * 1", zone: "Europe/Berlin", recheck: "stale", jitter_seconds: 600 },
    }),
  );
  const params = { path: { schedule_id: made.schedule_id } };
  const run = unwrap(await mailsift.api.POST("/v1/bulk/schedules/{schedule_id}/run", { params }));
  await mailsift.wait(run.job_id);
  const { runs } = unwrap(await mailsift.api.GET("/v1/bulk/schedules/{schedule_id}/runs", { params }));
  return { runs: runs.length };
}

/** Is told of something, and believes it only when it is signed. @param {Mailsift} mailsift */
async function webhook(mailsift) {
  /** @type {(heard: { headers: Record<string, string>, body: Buffer }) => void} */
  let hear = () => undefined;
  /** @type {Promise<{ headers: Record<string, string>, body: Buffer }>} */
  const heard = new Promise((resolve) => (hear = resolve));
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await all(request));
    hear({ headers: /** @type {Record<string, string>} */ (request.headers), body });
    response.writeHead(204).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  try {
    const hook = unwrap(await mailsift.api.POST("/v1/webhooks", { body: { url: `http://127.0.0.1:${port}/` } }));
    const body = { test_type: /** @type {const} */ ("test_webhook"), webhook_id: hook.webhook_id };
    const told = unwrap(await mailsift.api.POST("/v1/webhooks/test", { body }));
    const came = await heard;
    const event = await verifyWebhook(hook.secret, came.headers, came.body);
    const forged = await Promise.all([
      isRefused(hook.secret, came.headers, Buffer.concat([came.body, Buffer.from(" ")])),
      isRefused(hook.secret, { ...came.headers, "webhook-timestamp": "1" }, came.body),
      isRefused(hook.secret, { ...came.headers, "webhook-signature": "v1,x" }, came.body),
    ]);
    return { delivered: told.delivered, event: event.type, forged };
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** @param {string} secret @param {Record<string, string>} headers @param {Uint8Array} body */
async function isRefused(secret, headers, body) {
  return verifyWebhook(secret, headers, body).then(
    () => false,
    (error) => error instanceof WebhookError,
  );
}

/** @template T @param {AsyncIterable<T>} iterable @returns {Promise<T[]>} */
async function all(iterable) {
  const found = [];
  for await (const one of iterable) found.push(one);
  return found;
}

console.log(JSON.stringify(await main(process.argv[2] ?? "", process.argv[3] ?? "")));
