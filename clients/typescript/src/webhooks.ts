/** Webhooks are what they say they are (https://www.standardwebhooks.com/). */

/** Seconds a webhook may be old, or early. */
export const TOLERANCE = 300;

/** This is no webhook of the installation that has the secret, or it is too old. */
export class WebhookError extends Error {
  override readonly name = "WebhookError";
}

/** A thing that happened; the same `id` may come twice. */
export interface WebhookEvent {
  id: string;
  type: string;
  created_at: string;
  data: Record<string, unknown>;
}

type Headers_ = Headers | Record<string, string | string[] | undefined>;

/**
 * Returns the event of a webhook, or throws a WebhookError.
 *
 * @param secret of the webhook, `whsec_` and base64
 * @param headers of the request; case does not matter
 * @param body as it came; parsed and written anew it is another
 * @param options seconds the timestamp may differ from now, and what time it is, in seconds since the epoch
 */
export async function verifyWebhook(
  secret: string,
  headers: Headers_,
  body: Uint8Array | string,
  options: { tolerance?: number; now?: number } = {},
): Promise<WebhookEvent> {
  const { tolerance = TOLERANCE, now = Date.now() / 1000 } = options;
  const [id, at, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => header(headers, name));
  if (id === undefined || at === undefined || signatures === undefined) throw new WebhookError("A header is missing.");
  if (!/^[0-9]{1,12}$/.test(at)) throw new WebhookError("The timestamp is no number.");
  if (Math.abs(now - Number(at)) > tolerance) throw new WebhookError("The timestamp is too far from now.");
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const signed = joined(new TextEncoder().encode(`${id}.${at}.`), bytes);
  const given = signatures.split(" ").filter((one) => one.startsWith("v1,"));
  const key = await importKey(secret);
  const known = await Promise.all(given.map((one) => verifies(key, one.slice(3), signed)));
  if (!known.includes(true)) throw new WebhookError("No signature is right.");
  return eventOf(bytes);
}

function header(headers: Headers_, wanted: string): string | undefined {
  if (headers instanceof Headers) return headers.get(wanted) ?? undefined;
  const found = Object.entries(headers).find(([name]) => name.toLowerCase() === wanted)?.[1];
  return Array.isArray(found) ? found[0] : found;
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}

async function importKey(secret: string): Promise<CryptoKey> {
  const bytes = fromBase64(secret.replace(/^whsec_/, ""));
  if (bytes === undefined || bytes.length === 0) throw new WebhookError("The secret is not base64.");
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

async function verifies(key: CryptoKey, signature: string, signed: Uint8Array<ArrayBuffer>): Promise<boolean> {
  const bytes = fromBase64(signature);
  return bytes !== undefined && crypto.subtle.verify("HMAC", key, bytes, signed);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function eventOf(body: Uint8Array): WebhookEvent {
  try {
    const found = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body)) as WebhookEvent;
    const texts = [found.id, found.type, found.created_at].every((one) => typeof one === "string");
    if (texts && typeof found.data === "object" && found.data !== null) return found;
  } catch {
    // said below
  }
  throw new WebhookError("The body is no event.");
}
