// Runs the published Node clients of other services against whatever has their names; prints what they got.
"use strict";

const HERE = "https://mailsift.test";
const { keys, emails } = JSON.parse(process.argv[2]);
const list = "name,email\n" + emails.map((email, place) => `Jane ${place},${email}\n`).join("");

async function waited(look, done) {
  const endsAt = Date.now() + 120_000;
  for (;;) {
    const found = await look();
    if (done(found)) return found;
    if (Date.now() > endsAt) throw new Error(JSON.stringify(found));
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

async function refused(call) {
  try {
    await call();
  } catch (error) {
    return String(error.message ?? error);
  }
  throw new Error("nothing was refused");
}

async function each(call) {
  const found = [];
  for (const email of emails) found.push(await call(email));
  return found;
}

// This client saves files as a browser does: by a link that is clicked.
function browser(saved) {
  globalThis.window = { navigator: {}, URL: { createObjectURL: (blob) => (saved.push(blob), ""), revokeObjectURL() {} } };
  globalThis.document = { body: { appendChild() {}, removeChild() {} }, createElement: () => ({ click() {} }) };
}

async function zerobounce() {
  const saved = [];
  browser(saved);
  const ZeroBounceSDK = require("@zerobounce/zero-bounce-sdk");
  const client = new ZeroBounceSDK();
  client.init(keys.zerobounce, `${HERE}/v2`);
  const file = new File([list], "list.csv", { type: "text/csv" });
  const sent = await client.sendFile({ file, email_address_column: 2, has_header_row: true });
  const done = await waited(() => client.getFileStatus(sent.file_id), (one) => one.file_status === "Complete");
  await client.getFile(sent.file_id);
  const cells = (line) => line.split(",").map((cell) => cell.replace(/^"(.*)"$/, "$1"));
  const [header, ...rows] = (await saved[0].text()).trim().split("\n").map(cells);
  const [status, subStatus] = ["ZB Status", "ZB Sub Status"].map((name) => header.indexOf(name));
  const code = (one) => [one.status, one.sub_status];
  const batch = await client.validateBatch(emails.map((email) => ({ email_address: email })));
  const validated = await each(async (email) => code(await client.validateEmail(email, { timeout: 20 })));
  const credits = await client.getCredits();
  const deleted = await client.deleteFile(sent.file_id);
  const gone = await client.getFile(sent.file_id);
  client.init("stranger", `${HERE}/v2`);
  const stranger = await client.validateEmail(emails[0]);
  delete globalThis.window; // the others would take us for a browser
  delete globalThis.document;
  return {
    validateEmail: validated,
    validateBatch: batch.email_batch.map(code),
    getCredits: credits.Credits,
    sendFile: [sent.success, sent.message, sent.file_name],
    getFileStatus: [done.success, done.complete_percentage],
    getFile: rows.map((row) => [row[status], row[subStatus]]),
    deleteFile: deleted.message,
    refused: [gone.message, stranger.error],
  };
}

async function neverbounce() {
  const NeverBounce = require("neverbounce").default;
  const client = new NeverBounce({ apiKey: keys.neverbounce });
  client.setHost("mailsift.test");
  const supplied = emails.map((email, place) => ({ id: place, email }));
  const atOnce = await client.jobs.create(supplied, "supplied", "a.csv", false, true, true);
  const later = await client.jobs.create(supplied, "supplied", "b.csv");
  const waiting = await client.jobs.status(later.job_id);
  await client.jobs.parse(later.job_id);
  await client.jobs.start(later.job_id);
  const done = [];
  for (const { job_id } of [atOnce, later])
    done.push(await waited(() => client.jobs.status(job_id), (one) => one.job_status === "complete"));
  const results = await client.jobs.results(atOnce.job_id, { items_per_page: 100 });
  const download = await client.jobs.download(atOnce.job_id, { valids: 1 });
  const search = await client.jobs.search({ filename: "b.csv" });
  const info = await client.account.info();
  const checked = await each(async (email) => (await client.single.check(email, true, true, 20)).getResult());
  const deleted = [];
  for (const { job_id } of [atOnce, later]) deleted.push((await client.jobs.delete(job_id)).status);
  client.setApiKey("stranger");
  return {
    "single.check": checked,
    "account.info": info.job_counts.completed,
    "jobs.create": done.map((one) => one.total.valid),
    "jobs.parse": waiting.job_status,
    "jobs.start": done.map((one) => one.percent_complete),
    "jobs.status": done.map((one) => one.filename),
    "jobs.results": results.results.map((row) => [row.data.id, row.verification.result]),
    "jobs.download": download.trim().split("\n").length,
    "jobs.search": search.results.map((one) => one.filename),
    "jobs.delete": deleted,
    refused: [await refused(() => client.single.check(emails[0]))],
  };
}

async function kickbox() {
  const { client } = require("kickbox");
  const api = client(keys.kickbox, { base: HERE }).kickbox();
  const verify = (from, email) =>
    new Promise((resolve, reject) =>
      from.verify(email, { timeout: 20_000 }, (error, response) => (error ? reject(error) : resolve(response.body))),
    );
  const stranger = client("stranger", { base: HERE }).kickbox();
  return {
    verify: await each(async (email) => {
      const { result, reason } = await verify(api, email);
      return [result, reason];
    }),
    refused: [await refused(() => verify(stranger, emails[0]))],
  };
}

async function emailable() {
  const client = require("emailable")(keys.emailable);
  const code = ({ state, reason }) => [state, reason];
  const made = await client.batches.verify(emails.filter((email) => !email.includes(",")));
  const done = await waited(() => client.batches.status(made.id), (one) => one.emails);
  const stranger = require("emailable")("stranger");
  return {
    verify: await each(async (email) => code(await client.verify(email, { timeout: 10 }))),
    "batches.verify": made.message,
    "batches.status": done.emails.map(code),
    account: (await client.account()).available_credits,
    refused: [await refused(() => stranger.verify(emails[0])), await refused(() => client.batches.status("nothing"))],
  };
}

async function main() {
  const clients = { "@zerobounce/zero-bounce-sdk": zerobounce, neverbounce, kickbox, emailable };
  const found = {};
  for (const [name, run] of Object.entries(clients)) found[name] = await run();
  process.stdout.write(JSON.stringify(found));
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
