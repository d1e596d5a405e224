/** Client of Mailsift; `generated.ts` is what the API's own description says, as types. */
export { Mailsift, ENDED } from "./client.js";
export type { Event, FileFormat, Job, ListOptions, Options, ResultRow, RowFilter, Verdict } from "./client.js";
export { MailsiftError, unwrap } from "./errors.js";
export { verifyWebhook, WebhookError, TOLERANCE } from "./webhooks.js";
export type { WebhookEvent } from "./webhooks.js";
export type { components, operations, paths } from "./generated.js";
