// What a session does not show: webhooks of every kind, patience, a stream that breaks off.
import { readFileSync } from "node:fs";

import { Mailsift, MailsiftError, verifyWebhook, WebhookError } from "mailsift-client";

const found = JSON.parse(readFileSync(0, "utf8"));
const asked = [];
const ages = [];
const answers = [...found.answers];
const fake = async (request) => {
  asked.push(`${request.method} ${new URL(request.url).pathname}`);
  if (request.method === "POST") ages.push((await request.clone().json()).max_age ?? "not said");
  const { body, status, headers } = answers.shift();
  if (!status) throw new TypeError("fetch failed");
  return new Response(body, { status, headers });
};
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
    if (error instanceof MailsiftError) errors.push([error.status, error.code]);
    else if (error instanceof TypeError) errors.push([0, ""]);
    else throw error;
  });
}
const newer = (await session.check("a@example.com")).result;
let gone = false;
try {
  for await (const job of session.follow("7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11")) throw new Error(job.status);
} catch (error) {
  gone = error instanceof TypeError;
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
console.log(JSON.stringify({ followed, waited, errors, asked, ages, newer, gone, waits, webhooks }));
