-- Public keys are bound to the origins of the pages they stand in.

ALTER TABLE api_key ADD COLUMN origins text[] NOT NULL DEFAULT '{}';
