// What a session does not show: webhooks of every kind, patience, a stream that breaks off.
import { readFileSync } from "node:fs";

import { Mailsift, MailsiftError, verifyWebhook, WebhookError } from "mailsift-client";

const found = JSON.parse(readFileSync(0, "utf8"));
const asked = [];
const ages = [];
const answers = [...found.answers];
const fake = async (request) => {
  request.signal.throwIfAborted();
  asked.push(`${request.method} ${new URL(request.url).pathname}`);
  if (request.method === "POST") ages.push((await request.clone().json()).max_age ?? "not said");
  const { body, status, headers } = answers.shift();
  if (!status) throw new TypeError("fetch failed");
  if (status === -1) return new Response(breaksOff(), { status: 200, headers });
  return new Response(body, { status, headers });
};
const breaksOff = () => new ReadableStream({ pull: (body) => body.error(new TypeError("terminated")) });
let waits = 0;
const timer = globalThis.setTimeout;
globalThis.setTimeout = (run) => {
  waits += 1;
  return timer(run, 0);
};

const session = new Mailsift("http://mailsift.test", "svc_test_x", { patience: 10, fetch: fake });
const followed = [];
for await (const job of session.follow("7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11")) followed.push(job.status);
const waited = (await session.wait("7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11")).status;
const errors = [];
for (const options of [{}, ...Array(6).fill({ max_age: 0 })]) {
  await session.check("a@example.com", options).catch((error) => {
    if (!(error instanceof MailsiftError)) throw error;
    errors.push([error.status, error.code]);
  });
}
const newer = (await session.check("a@example.com")).result;
const broken = await session.check("a@example.com").catch((error) => [error.status, error.code]);
let gone = false;
try {
  for await (const job of session.follow("7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11")) throw new Error(job.status);
} catch (error) {
  gone = error instanceof MailsiftError && error.status === 0;
}
const webhooks = [];
for (const { secret, headers, body, now } of found.webhooks) {
  const one = verifyWebhook(secret, headers, Buffer.from(body, "base64"), { now });
  webhooks.push(
    await one.then(
      () => true,
      (error) => {
        if (!(error instanceof WebhookError)) throw error;
        return false;
      },
    ),
  );
}
const signal = AbortSignal.abort();
const id = "7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11";
const calls = [
  session.check("a@example.com", {}, signal),
  session.checkMany(["a@example.com"], {}, signal),
  session.submit(["a@example.com"], {}, { signal }),
  session.submit(new Blob(["email\n"]), {}, { signal }),
  session.job(id, 0, signal),
  session.wait(id, signal),
  session.follow(id, signal).next(),
  session.results(id, {}, { signal }).next(),
  session.download(id, {}, signal),
  session.delete(id, signal),
  session.events({}, signal).next(),
];
const aborted = (await Promise.allSettled(calls)).map((call) => call.reason?.name);
console.log(JSON.stringify({ followed, waited, errors, asked, ages, newer, broken, gone, waits, webhooks, aborted }));
