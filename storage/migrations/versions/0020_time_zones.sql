-- In which time zone an account and a person read times.

ALTER TABLE account ADD COLUMN zone text NOT NULL DEFAULT 'UTC';

ALTER TABLE person ADD COLUMN zone text NOT NULL DEFAULT '';
