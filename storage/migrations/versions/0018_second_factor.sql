-- A second factor beside the password: a sealed secret, the last step used, hashes of recovery codes.

CREATE TABLE second_factor (
    person_id uuid PRIMARY KEY REFERENCES person ON DELETE CASCADE,
    secret bytea NOT NULL,
    recovery bytea[] NOT NULL DEFAULT '{}',
    last_step bigint NOT NULL DEFAULT 0,
    confirmed_at timestamptz
);
