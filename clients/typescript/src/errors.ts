import type { components } from "./generated.js";

type Problem = components["schemas"]["Problem"];

/**
 * The API refused; `code` is stable, and `/docs` of the installation lists them all. It is empty when somebody else
 * answered; when nobody did, `status` is 0, and `cause` is what `fetch` threw.
 */
export class MailsiftError extends Error {
  override readonly name = "MailsiftError";

  constructor(
    message: string,
    readonly code: string,
    readonly status: number,
    readonly requestId: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** What openapi-fetch gives. */
interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns the `data` of an answer, or throws a MailsiftError. */
export function unwrap<T>(answer: Answer<{ data: T }>): T {
  if (answer.response.ok && answer.data !== undefined) return answer.data.data;
  throw problemOf(answer.error, answer.response.status);
}

export function problemOf(found: unknown, status: number): MailsiftError {
  if (isProblem(found)) return new MailsiftError(found.message, found.code, found.status, found.request_id);
  return new MailsiftError(`The answer has the status ${status} and is none of Mailsift's.`, "", status, "");
}

export function noAnswer(cause: unknown): MailsiftError {
  return new MailsiftError("Nobody answers.", "", 0, "", { cause });
}

function isProblem(found: unknown): found is Problem {
  return typeof found === "object" && found !== null && "code" in found && "request_id" in found;
}
