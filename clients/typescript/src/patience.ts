/** Waiting as the API asks for, instead of failing. */

import { problemOf } from "./errors.js";

const SAFE = new Set(["GET", "HEAD", "DELETE"]);
const PAUSE = 1; // seconds until somebody may listen again
const GATEWAY = new Set([502, 503, 504]); // what a proxy says while nobody answers behind it (RFC 9110); 503 is ours, too

/**
 * Returns a fetch that sends again what was too early (429), and what may be repeated when the service is away: it
 * says so (503), nobody listens, or a proxy finds nobody.
 */
export function patient(inner: typeof fetch, patience: number): (request: Request) => Promise<Response> {
  return async (request) => {
    let left = patience;
    for (;;) {
      const response = await inner(request.clone()).catch((error: unknown) => {
        if (request.signal.aborted || !isRepeatable(request) || left < PAUSE) throw error;
      });
      const wait = response ? waitOf(request, response) : PAUSE;
      if (response && (wait === undefined || wait > left)) {
        if (response.ok && isPage(response)) throw problemOf(undefined, response.status);
        return response;
      }
      await response?.body?.cancel();
      await sleep(wait ?? PAUSE, request.signal);
      left -= wait ?? PAUSE;
    }
  };
}

/** Says whether somebody else answered, such as a proxy: what is no error would be read as JSON. */
const isPage = (response: Response): boolean => (response.headers.get("content-type") ?? "").startsWith("text/html");

/** Says whether it does no harm that a request arrives twice. */
const isRepeatable = (request: Request): boolean => SAFE.has(request.method) || request.headers.has("idempotency-key");

function waitOf(request: Request, response: Response): number | undefined {
  const isAway = GATEWAY.has(response.status) && isRepeatable(request);
  const seconds = told(response.headers);
  if ((isAway || response.status === 429) && !Number.isNaN(seconds)) return Math.max(PAUSE, seconds);
  return isAway ? PAUSE : undefined;
}

/** Returns after how many seconds to come again: a number, or a date by the clock of who answers. NaN: it is not said. */
function told(headers: Headers): number {
  const said = headers.get("retry-after") ?? "";
  return /^[0-9]+$/.test(said) ? Number(said) : (Date.parse(said) - Date.parse(headers.get("date") ?? "")) / 1000;
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
