// Sends a file, which the service refuses once and then takes: node memory.mjs FILE; it prints how
// many bytes came each time, and how many more were in memory; fetch itself needs as many as a file has.
import { openAsBlob } from "node:fs";
import { createServer } from "node:http";

import { Mailsift } from "mailsift-client";

const came = [];
const server = createServer(async (request, response) => {
  let bytes = 0;
  for await (const piece of request) bytes += piece.length;
  const [status, headers] = came.push(bytes) === 1 ? [429, { "retry-after": "1" }] : [202, {}];
  response.writeHead(status, { ...headers, "content-type": "application/json" }).end('{"data": {}}');
}).listen(0, "127.0.0.1", async () => {
  const mailsift = new Mailsift(`http://127.0.0.1:${server.address().port}`, "svc_test_x");
  const list = await openAsBlob(process.argv[2]);
  await mailsift.submit(new Blob(["email\n"]), {}, {});
  const before = process.resourceUsage().maxRSS;
  came.length = 0;
  await mailsift.submit(list);
  console.log(JSON.stringify({ came, more: (process.resourceUsage().maxRSS - before) * 1024 }));
  server.close();
  server.closeAllConnections();
});
