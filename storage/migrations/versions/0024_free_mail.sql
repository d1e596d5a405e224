-- How many addresses of a chunk are at free-mail domains, for the time left.

ALTER TABLE chunk ADD COLUMN free_mail jsonb;
