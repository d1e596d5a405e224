-- Sources are the fleet's: workers tell theirs, chunks know whom a greylisting server expects.

ALTER TABLE worker ADD COLUMN sources text[] NOT NULL DEFAULT '{}';

ALTER TABLE chunk ADD COLUMN subnet text NOT NULL DEFAULT '';

-- A chunk that the former release has leased occupies every source: NULL.
ALTER TABLE chunk ADD COLUMN lease_sources text[];

CREATE TABLE source_rest (
    provider text NOT NULL,
    source text NOT NULL,
    rests_until timestamptz NOT NULL,
    PRIMARY KEY (provider, source)
);
