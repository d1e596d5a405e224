/** Waiting as the API asks for, instead of failing. */

import { problemOf } from "./errors.js";

const SAFE = new Set(["GET", "HEAD", "DELETE"]);

/** Returns a fetch that sends again what was too early (429), and what may be repeated when the service is away (503). */
export function patient(inner: typeof fetch, patience: number): (request: Request) => Promise<Response> {
  return async (request) => {
    let left = patience;
    for (;;) {
      const response = await inner(request.clone());
      const wait = waitOf(request, response);
      if (wait === undefined || wait > left) {
        if (response.ok && isPage(response)) throw problemOf(undefined, response.status);
        return response;
      }
      await response.body?.cancel();
      await sleep(wait, request.signal);
      left -= wait;
    }
  };
}

/** Says whether somebody else answered, such as a proxy: what is no error would be read as JSON. */
const isPage = (response: Response): boolean => (response.headers.get("content-type") ?? "").startsWith("text/html");

function waitOf(request: Request, response: Response): number | undefined {
  const repeatable = SAFE.has(request.method) || request.headers.has("idempotency-key");
  const due = response.status === 429 || (response.status === 503 && repeatable);
  const seconds = response.headers.get("retry-after") ?? "";
  return due && /^[0-9]+$/.test(seconds) ? Math.max(1, Number(seconds)) : undefined;
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
