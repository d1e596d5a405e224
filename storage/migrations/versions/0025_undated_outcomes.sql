-- Which outcomes came without a time of their own.

ALTER TABLE outcome ADD COLUMN undated boolean NOT NULL DEFAULT false;
