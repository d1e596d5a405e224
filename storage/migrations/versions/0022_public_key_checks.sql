-- How many checks a minute a public key may be used for; null = the usual.

ALTER TABLE api_key ADD COLUMN checks_per_minute integer;
