-- What an account has put away of the first things to do.

ALTER TABLE account ADD COLUMN steps_dismissed text[] NOT NULL DEFAULT '{}';
