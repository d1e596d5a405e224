"""What came between release 0.1.0 and the one after it, table by table.

A database of 0.1.0 has none of the new tables, so nothing has to be moved into them.
"""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0007"


def upgrade() -> None:
    """Bring the schema up."""
    op.execute("""
        ALTER TABLE account
            -- Whose test account it is.
            ADD COLUMN test_of uuid UNIQUE REFERENCES account (id) ON DELETE CASCADE,
            ADD COLUMN policy jsonb NOT NULL DEFAULT '{}',  -- what is done with verdicts
            ADD COLUMN zone text NOT NULL DEFAULT 'UTC',  -- IANA name
            ADD COLUMN steps_dismissed text[] NOT NULL DEFAULT '{}';  -- of the first things to do

        ALTER TABLE job
            ADD COLUMN test boolean NOT NULL DEFAULT false,  -- of a test account: nobody is asked
            ADD COLUMN measured boolean NOT NULL DEFAULT false,  -- its verdicts are in `accuracy`
            -- Rows by tier, by the job's policy.
            ADD COLUMN send bigint NOT NULL DEFAULT 0,
            ADD COLUMN review bigint NOT NULL DEFAULT 0,
            ADD COLUMN remove bigint NOT NULL DEFAULT 0,
            ADD COLUMN step_waits_for text NOT NULL DEFAULT '',  -- what a step that was given back waits for
            ADD COLUMN delivers boolean NOT NULL DEFAULT false;  -- its results are still to be put in place
        CREATE INDEX job_unmeasured ON job (finished_at) WHERE state = 'completed' AND NOT measured;

        ALTER TABLE chunk
            ADD COLUMN subnet text NOT NULL DEFAULT '',  -- whom a greylisting server expects
            ADD COLUMN lease_sources text[],  -- NULL: the former release leased it, and occupies every source
            -- For the time left: addresses at free-mail domains, and at how many domains: each is asked for a
            -- random recipient.
            ADD COLUMN free_mail jsonb,
            ADD COLUMN domains integer NOT NULL DEFAULT 0;
        CREATE INDEX chunk_in_line ON chunk (lane, job_id) WHERE state = 'ready' AND lane <> '';

        ALTER TABLE worker
            ADD COLUMN sources text[] NOT NULL DEFAULT '{}',
            ADD COLUMN health jsonb NOT NULL DEFAULT '{}';  -- what its processes say of themselves

        -- Which schedules fetch their list for every run: those of fetched lists had no size until now.
        ALTER TABLE schedule ADD COLUMN fetches boolean NOT NULL DEFAULT false;
        UPDATE schedule SET fetches = true FROM job WHERE job.id = source_job_id AND job.source_bytes = 0;

        CREATE INDEX event_by_account ON event (account_id, created_at, id);

        -- What a request that is sent twice is answered.
        ALTER TABLE idempotency
            ALTER COLUMN job_id DROP NOT NULL,
            ADD COLUMN token uuid,
            ADD COLUMN lease_until timestamptz,
            ADD COLUMN answer bytea;

        -- Public keys are bound to the origins of the pages they stand in.
        ALTER TABLE api_key
            ADD COLUMN origins text[] NOT NULL DEFAULT '{}',
            ADD COLUMN checks_per_minute integer;  -- NULL: the usual

        ALTER TABLE person ADD COLUMN zone text NOT NULL DEFAULT '';  -- IANA name; "" = as the account
        ALTER TABLE member ADD COLUMN mail text[] NOT NULL DEFAULT '{}';  -- what each wants to hear of

        -- What accounts use by day.
        CREATE TABLE usage (
            account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
            day date NOT NULL,
            mode text NOT NULL,
            rows bigint NOT NULL DEFAULT 0,
            addresses bigint NOT NULL DEFAULT 0,
            probes bigint NOT NULL DEFAULT 0,
            PRIMARY KEY (account_id, day, mode)
        );

        -- What an account has erased, when and how much: receipts that name no address.
        CREATE TABLE erasure_receipt (
            id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            person_id uuid NOT NULL,
            erased jsonb NOT NULL,
            at timestamptz NOT NULL DEFAULT clock_timestamp()
        );
        CREATE INDEX erasure_receipt_by_account ON erasure_receipt (account_id, at);

        -- Mail to members about their jobs: the outbox.
        CREATE TABLE job_mail (
            id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
            person_id uuid NOT NULL REFERENCES person ON DELETE CASCADE,
            kind text NOT NULL,
            state text NOT NULL DEFAULT 'pending',
            tries int NOT NULL DEFAULT 0,
            next_try_at timestamptz NOT NULL,
            UNIQUE (job_id, person_id, kind)
        );
        CREATE INDEX job_mail_due ON job_mail (next_try_at) WHERE state = 'pending';
        CREATE INDEX job_mail_by_person ON job_mail (person_id);

        -- Tries to sign in while Redis does not count them.
        CREATE TABLE sign_in_try (
            holder bytea NOT NULL,
            tried_at timestamptz NOT NULL
        );
        CREATE INDEX sign_in_try_of ON sign_in_try (holder, tried_at);

        -- A second factor beside the password: a sealed secret, the last step used, hashes of recovery codes.
        CREATE TABLE second_factor (
            person_id uuid PRIMARY KEY REFERENCES person ON DELETE CASCADE,
            secret bytea NOT NULL,
            recovery bytea[] NOT NULL DEFAULT '{}',
            last_step bigint NOT NULL DEFAULT 0,
            confirmed_at timestamptz
        );

        -- Who a provider says somebody is, and what asks it again while they are signed in.
        CREATE TABLE sso_identity (
            issuer text NOT NULL,
            subject text NOT NULL,
            person_id uuid NOT NULL REFERENCES person ON DELETE CASCADE,
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (issuer, subject),
            UNIQUE (issuer, person_id)
        );
        CREATE TABLE sso_session (
            session_id bytea PRIMARY KEY REFERENCES session ON DELETE CASCADE,
            person_id uuid NOT NULL REFERENCES person ON DELETE CASCADE,
            issuer text NOT NULL,
            subject text NOT NULL,
            tokens bytea NOT NULL,
            asked_at timestamptz NOT NULL,
            known_at timestamptz NOT NULL
        );
        CREATE INDEX sso_session_by_person ON sso_session (person_id);

        -- What happened when lists were sent to, by account, and the key that hides the addresses.
        CREATE TABLE account_secret (
            account_id uuid PRIMARY KEY REFERENCES account ON DELETE CASCADE,
            sealed bytea NOT NULL
        );
        CREATE TABLE outcome (
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            report bytea NOT NULL,
            address bytea NOT NULL,
            sealed bytea NOT NULL,
            kind text NOT NULL CHECK (
                kind IN ('delivered', 'bounced', 'deferred', 'complained', 'unsubscribed')),
            answer text NOT NULL,
            rule text NOT NULL,
            smtp_code int NOT NULL,
            enhanced text NOT NULL,
            said text NOT NULL,
            origin text NOT NULL,
            happened_at timestamptz NOT NULL,
            received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            undated boolean NOT NULL DEFAULT false,  -- it came without a time of its own
            PRIMARY KEY (account_id, report)
        );
        CREATE INDEX outcome_of_address ON outcome (account_id, address, happened_at);
        CREATE INDEX outcome_by_age ON outcome (happened_at);
        CREATE INDEX outcome_by_arrival ON outcome (account_id, received_at);
        CREATE TABLE receiver (
            id uuid PRIMARY KEY,
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            sender text NOT NULL,
            name text NOT NULL DEFAULT '',
            secret bytea NOT NULL,
            topic text NOT NULL DEFAULT '',
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            heard_at timestamptz,
            taken bigint NOT NULL DEFAULT 0,
            refused bigint NOT NULL DEFAULT 0,
            malformed bigint NOT NULL DEFAULT 0
        );
        CREATE INDEX receiver_of_account ON receiver (account_id);
        CREATE TABLE receiver_token (
            receiver_id uuid NOT NULL REFERENCES receiver ON DELETE CASCADE,
            token bytea NOT NULL,
            used_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (receiver_id, token)
        );
        CREATE INDEX receiver_token_by_age ON receiver_token (used_at);

        -- To whom accounts may not send.
        CREATE TABLE suppression (
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            address bytea NOT NULL,
            sealed bytea NOT NULL,
            reason text NOT NULL,
            origin text NOT NULL DEFAULT '',
            since timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (account_id, address)
        );

        -- How verdicts held: those whose addresses were sent to, what became of them, sums without addresses.
        CREATE TABLE measured_verdict (
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            address bytea NOT NULL,
            judged_at timestamptz NOT NULL,
            mode text NOT NULL,
            provider text NOT NULL,
            status text NOT NULL,
            result text NOT NULL,
            score smallint NOT NULL,
            known boolean NOT NULL,
            fate text NOT NULL DEFAULT '',
            PRIMARY KEY (account_id, address, judged_at)
        );
        CREATE INDEX measured_verdict_by_age ON measured_verdict (judged_at);
        CREATE TABLE accuracy (
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            day date NOT NULL,
            mode text NOT NULL,
            provider text NOT NULL,
            status text NOT NULL,
            result text NOT NULL,
            score smallint NOT NULL,
            what text NOT NULL,
            known boolean NOT NULL,
            held_out boolean NOT NULL,
            n bigint NOT NULL,
            PRIMARY KEY (account_id, day, mode, provider, status, result, score, what, known, held_out)
        );
        CREATE INDEX accuracy_by_day ON accuracy (day);
        CREATE TABLE measurement (
            account_id uuid PRIMARY KEY REFERENCES account ON DELETE CASCADE,
            due_at timestamptz,
            told_at timestamptz NOT NULL DEFAULT 'epoch',
            counted_at timestamptz NOT NULL DEFAULT 'epoch',
            rest_s float NOT NULL DEFAULT 30,
            token uuid,
            until timestamptz
        );
        CREATE INDEX measurement_due ON measurement (due_at) WHERE due_at IS NOT NULL;

        -- What keeps a source's name good: rests, a ledger, its worth at each provider, and where it is
        -- listed.
        CREATE TABLE source_rest (
            provider text NOT NULL,
            source text NOT NULL,
            rests_until timestamptz NOT NULL,
            PRIMARY KEY (provider, source)
        );
        CREATE TABLE source_ledger (
            hour timestamptz NOT NULL,
            provider text NOT NULL,
            source text NOT NULL,
            kind text NOT NULL,
            count bigint NOT NULL,
            PRIMARY KEY (hour, provider, source, kind)
        );
        CREATE TABLE source_standing (
            provider text NOT NULL,
            source text NOT NULL,
            step int NOT NULL DEFAULT 0,
            clean bigint NOT NULL DEFAULT 0,
            refused bigint NOT NULL DEFAULT 0,
            stepped_at timestamptz NOT NULL,
            asked_at timestamptz NOT NULL,
            PRIMARY KEY (provider, source)
        );
        CREATE TABLE source_listing (
            source text NOT NULL,
            zone text NOT NULL,
            listed_since timestamptz,
            detail text NOT NULL DEFAULT '',
            looked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (source, zone)
        );

        -- What a job asked of a provider, and domains that do not want to be asked.
        CREATE TABLE job_asked (
            job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
            provider text NOT NULL,
            source text NOT NULL,
            asked bigint NOT NULL DEFAULT 0,
            missing bigint NOT NULL DEFAULT 0,
            stops int NOT NULL DEFAULT 0,
            stopped_until timestamptz,
            PRIMARY KEY (job_id, provider, source)
        );
        CREATE TABLE opt_out (
            domain text PRIMARY KEY,
            note text NOT NULL DEFAULT '',
            added_by text NOT NULL DEFAULT '',
            added_at timestamptz NOT NULL DEFAULT clock_timestamp()
        );

        -- Whose turn it is at a provider: accounts take turns there, whatever they have done elsewhere.
        CREATE TABLE provider_turn (
            lane text NOT NULL,
            account_id uuid NOT NULL REFERENCES account ON DELETE CASCADE,
            starts double precision NOT NULL,
            ends double precision NOT NULL,
            taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (lane, account_id)
        );
        CREATE INDEX provider_turn_by_account ON provider_turn (account_id);
    """)
