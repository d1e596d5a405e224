-- What a step waits for that was given back.

ALTER TABLE job ADD COLUMN step_waits_for text NOT NULL DEFAULT '';
