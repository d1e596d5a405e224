/** Waiting as the API asks for, instead of failing. */

import { noAnswer, problemOf } from "./errors.js";

const SAFE = new Set(["GET", "HEAD", "DELETE"]);
const PAUSE = 1; // seconds until somebody may listen again
const WAITS = /(?:\s*(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,)?[^,]+/gi; // the comma after the day of a week divides none
const GATEWAY = new Set([502, 503, 504]); // what a proxy says while nobody answers behind it (RFC 9110); 503 is ours, too

/**
 * Returns a fetch that sends again what was too early (429), and what may be repeated when the service is away: it
 * says so (503), nobody listens, or a proxy finds nobody.
 *
 * @param copy of a request, to be sent; a clone keeps in memory what has been sent of the body
 */
export function patient(
  inner: typeof fetch,
  patience: number,
  copy = (request: Request) => request.clone(),
): (request: Request) => Promise<Response> {
  return async (request) => {
    let left = patience;
    for (;;) {
      const response = await inner(copy(request)).catch((error: unknown) => {
        if (request.signal.aborted) throw error;
        if (!isRepeatable(request) || left < PAUSE) throw noAnswer(error);
      });
      const wait = response ? waitOf(request, response) : PAUSE;
      if (response && (wait === undefined || wait > left)) {
        if (response.ok && isPage(response)) throw problemOf(undefined, response.status);
        return whole(request, response);
      }
      await response?.body?.cancel();
      await sleep(wait ?? PAUSE, request.signal);
      left -= wait ?? PAUSE;
    }
  };
}

/** Returns an answer in JSON once all of it is there, and any other as it is: a stream is read by who asked. */
async function whole(request: Request, response: Response): Promise<Response> {
  if (!response.body || !(response.headers.get("content-type") ?? "").includes("json")) return response;
  const body = await response.arrayBuffer().catch((error: unknown) => {
    throw request.signal.aborted ? error : noAnswer(error);
  });
  return new Response(body, response);
}

/** Says whether somebody else answered, such as a proxy: what is no error would be read as JSON. */
const isPage = (response: Response): boolean => (response.headers.get("content-type") ?? "").startsWith("text/html");

/** Says whether it does no harm that a request arrives twice. */
const isRepeatable = (request: Request): boolean => SAFE.has(request.method) || request.headers.has("idempotency-key");

function waitOf(request: Request, response: Response): number | undefined {
  const isAway = GATEWAY.has(response.status) && isRepeatable(request);
  const seconds = told(response.headers); // -Infinity: it is not said
  if ((isAway || response.status === 429) && seconds > -Infinity) return Math.max(PAUSE, seconds);
  return isAway ? PAUSE : undefined;
}

/** Returns after how many seconds to come again, of several the longest: numbers, or dates by the clock of who answers. */
function told(headers: Headers): number {
  const now = Date.parse(headers.get("date") ?? "");
  const said = (headers.get("retry-after") ?? "").match(WAITS) ?? [];
  const waits = said.map((one) => (/^\s*[0-9]+\s*$/.test(one) ? Number(one) : (Date.parse(one) - now) / 1000));
  return Math.max(...waits.filter((seconds) => !Number.isNaN(seconds)));
}

/** Waits; rejects when the signal says so. */
export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
}
