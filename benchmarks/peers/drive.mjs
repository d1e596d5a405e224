// Asks a Node package about every address on standard input, 50 at a time:
//     node drive.mjs FOLDER PACKAGE
// Prints {"seconds": ..., "statuses": {address: "valid" | "invalid" | "risky"}}.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const CONCURRENCY = 50;
const WARM_UP = "known@ordinary.sandbox.test";

const [folder, name] = process.argv.slice(2);
const require = createRequire(join(folder, "package.json"));

// Each turns a package's own answer into a status, in its favour: what it could not find out is risky.
const drivers = {
  "@devmehq/email-validator-js": ({ verifyEmail }) => async (emailAddress) => {
    const answer = await verifyEmail({ emailAddress, verifyMx: true, verifySmtp: true, timeout: 10_000 });
    if (!answer.validFormat || answer.validMx === false) return "invalid";
    return { true: "valid", false: "invalid" }[answer.validSmtp] ?? "risky";
  },
  // Its guess at slips of the keyboard is off: it calls good addresses at gmx.net and the like invalid.
  "deep-email-validator": ({ validate }) => async (email) => {
    const answer = await validate({ email, sender: "probe@sandbox.test", validateTypo: false });
    if (answer.valid) return "valid";
    const unsure = answer.reason === "smtp" && answer.validators.smtp.reason !== "Mailbox not found.";
    return unsure ? "risky" : "invalid";
  },
};

const check = drivers[name](require(name));
const addresses = readFileSync(0, "utf8").split("\n").filter(Boolean);
const statuses = {};

async function work(queue) {
  for (const address of queue) {
    try {
      statuses[address] = await check(address);
    } catch {
      statuses[address] = "risky";
    }
  }
}

await check(WARM_UP);
const started = performance.now();
const queue = addresses.values();
await Promise.all(Array.from({ length: CONCURRENCY }, () => work(queue)));
const seconds = (performance.now() - started) / 1000;
process.stdout.write(JSON.stringify({ seconds, statuses }) + "\n", () => process.exit(0));
