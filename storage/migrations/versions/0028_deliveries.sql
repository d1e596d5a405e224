-- Which jobs have their results and have still to put them into their place.

ALTER TABLE job ADD COLUMN delivers boolean NOT NULL DEFAULT false;
