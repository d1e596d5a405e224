"""What release 0.1.0 made: jobs, webhooks, schedules, keys, people, what operators see and change."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = None


def upgrade() -> None:
    """Create the tables, and the indexes of the hot statements."""
    op.execute("""
        CREATE TABLE account (
            id uuid PRIMARY KEY,
            name text NOT NULL UNIQUE,
            vtime double precision NOT NULL DEFAULT 0,
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            retention_s double precision NOT NULL DEFAULT 0  -- of its jobs that say nothing; 0 = ever
        );

        CREATE TABLE job (
            id uuid PRIMARY KEY,
            account_id uuid NOT NULL REFERENCES account (id),
            parent_id uuid REFERENCES job (id) ON DELETE SET NULL,
            name text NOT NULL DEFAULT '',
            state text NOT NULL,
            options jsonb NOT NULL,
            source_name text NOT NULL DEFAULT '',
            source_sha256 text NOT NULL DEFAULT '',
            source_bytes bigint NOT NULL DEFAULT 0,
            address_column text NOT NULL DEFAULT '',  -- its name in the list
            total bigint NOT NULL DEFAULT 0,  -- rows of the list
            addresses bigint NOT NULL DEFAULT 0,
            processed bigint NOT NULL DEFAULT 0,  -- rows with a verdict
            valid bigint NOT NULL DEFAULT 0,
            invalid bigint NOT NULL DEFAULT 0,
            risky bigint NOT NULL DEFAULT 0,
            chunks integer NOT NULL DEFAULT 0,
            chunks_open integer NOT NULL DEFAULT 0,
            small boolean NOT NULL DEFAULT false,  -- never waits behind big jobs
            vtime double precision NOT NULL DEFAULT 0,
            step_token uuid,  -- the lease of intake and of finish
            step_owner text,
            step_until timestamptz,
            step_attempt integer NOT NULL DEFAULT 0,
            warning text NOT NULL DEFAULT '',  -- code of what makes its verdicts poorer
            error_code text NOT NULL DEFAULT '',
            error_detail text NOT NULL DEFAULT '',
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            started_at timestamptz,
            finished_at timestamptz,
            deadline_at timestamptz,
            schedule_id uuid,
            scheduled_for timestamptz,  -- the slot of the schedule; none when somebody said "now"
            list_rows bigint NOT NULL DEFAULT 0,  -- of the whole list, for a preview
            list_addresses bigint NOT NULL DEFAULT 0,
            expires_at timestamptz,  -- blobs and row are deleted then
            step_at timestamptz,
            CONSTRAINT job_state CHECK (state IN ('uploading', 'intake', 'queued', 'running', 'paused',
                'finalizing', 'completed', 'failed', 'cancelled')),
            CONSTRAINT job_finished_at CHECK (
                (state IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
            CONSTRAINT job_counts CHECK (processed = valid + invalid + risky AND processed <= total),
            CONSTRAINT job_chunks CHECK (chunks_open >= 0 AND chunks_open <= chunks),
            CONSTRAINT job_once_a_slot UNIQUE (schedule_id, scheduled_for)
        );
        CREATE INDEX job_by_account ON job (account_id, created_at, id);
        CREATE INDEX job_active ON job (state) WHERE state NOT IN ('completed', 'failed', 'cancelled');
        CREATE INDEX job_expired ON job (expires_at) WHERE expires_at IS NOT NULL;
        CREATE INDEX job_by_parent ON job (parent_id) WHERE parent_id IS NOT NULL;
        CREATE INDEX job_by_age ON job (created_at, id);

        CREATE TABLE chunk (
            job_id uuid NOT NULL REFERENCES job (id) ON DELETE CASCADE,
            n integer NOT NULL,
            state text NOT NULL DEFAULT 'ready',
            lane text NOT NULL DEFAULT '',
            waits_for text NOT NULL DEFAULT '',
            ready_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            attempt integer NOT NULL DEFAULT 0,
            addresses integer NOT NULL,
            source_key text NOT NULL,
            source_offset integer NOT NULL DEFAULT 0,
            lease_token uuid,
            lease_owner text,
            lease_until timestamptz,
            segment_key text,
            leased_at timestamptz,
            last_error text NOT NULL DEFAULT '',
            PRIMARY KEY (job_id, n),
            CONSTRAINT chunk_state CHECK (state IN ('ready', 'leased', 'done', 'cancelled')),
            CONSTRAINT chunk_lease CHECK ((state = 'leased') = (lease_token IS NOT NULL))
        );
        CREATE INDEX chunk_ready ON chunk (job_id, ready_at, n) WHERE state = 'ready';
        CREATE INDEX chunk_leased ON chunk (lease_until) WHERE state = 'leased';
        CREATE INDEX chunk_troubled ON chunk (job_id, n) WHERE attempt > 2;

        CREATE TABLE event (
            id uuid PRIMARY KEY,
            account_id uuid NOT NULL REFERENCES account (id),
            job_id uuid REFERENCES job (id) ON DELETE CASCADE,
            type text NOT NULL,
            body bytea NOT NULL,  -- the very bytes that are signed and sent
            created_at timestamptz NOT NULL,
            once text UNIQUE  -- what may happen only once, e.g. the end of a job
        );

        CREATE TABLE endpoint (
            id uuid PRIMARY KEY,
            account_id uuid NOT NULL REFERENCES account (id),
            url text NOT NULL,
            types text[] NOT NULL DEFAULT '{}',  -- empty = all
            enabled boolean NOT NULL DEFAULT true,
            disabled_reason text NOT NULL DEFAULT '',
            secret bytea NOT NULL,  -- sealed, with the id of the key that opens it
            previous_secret bytea,  -- signs too until previous_until
            previous_until timestamptz,
            failures integer NOT NULL DEFAULT 0,  -- in a row
            failing_since timestamptz,
            exhausted integer NOT NULL DEFAULT 0,  -- deliveries given up since then
            probe_at timestamptz,  -- the breaker is open: one attempt may be made then
            served_at timestamptz,
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            rate_per_second double precision,  -- attempts it takes; none = the usual
            paced_until timestamptz,  -- no attempt before then: its rate, or a fault of ours
            CONSTRAINT endpoint_disabled CHECK (enabled = (disabled_reason = '')),
            CONSTRAINT endpoint_rate CHECK (rate_per_second > 0)
        );
        CREATE INDEX endpoint_by_account ON endpoint (account_id, created_at, id);

        CREATE TABLE delivery (
            id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            event_id uuid NOT NULL REFERENCES event (id) ON DELETE CASCADE,
            endpoint_id uuid NOT NULL REFERENCES endpoint (id) ON DELETE CASCADE,
            state text NOT NULL DEFAULT 'pending',
            trigger text NOT NULL DEFAULT 'automatic',  -- of the next attempt
            attempts integer NOT NULL DEFAULT 0,
            round integer NOT NULL DEFAULT 0,  -- attempts since it was last asked for
            next_attempt_at timestamptz,
            lease_token uuid,
            lease_until timestamptz,
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            finished_at timestamptz,
            UNIQUE (event_id, endpoint_id),
            CONSTRAINT delivery_state CHECK (
                state IN ('pending', 'delivering', 'succeeded', 'exhausted', 'skipped')),
            CONSTRAINT delivery_trigger CHECK (trigger IN ('automatic', 'manual', 'test')),
            CONSTRAINT delivery_due CHECK ((state = 'pending') <= (next_attempt_at IS NOT NULL)),
            CONSTRAINT delivery_lease CHECK ((state = 'delivering') = (lease_token IS NOT NULL))
        );
        CREATE INDEX delivery_due ON delivery (endpoint_id, created_at, id) WHERE state = 'pending';
        CREATE INDEX delivery_leased ON delivery (endpoint_id, lease_until) WHERE state = 'delivering';
        CREATE INDEX delivery_by_endpoint ON delivery (endpoint_id, created_at, id);

        CREATE TABLE attempt (
            delivery_id uuid NOT NULL REFERENCES delivery (id) ON DELETE CASCADE,
            n integer NOT NULL,
            at timestamptz NOT NULL,
            trigger text NOT NULL,
            ms integer NOT NULL,
            status_code integer NOT NULL,  -- 0 when nobody answered
            error text NOT NULL,  -- "" when it arrived
            response text NOT NULL,
            wish text NOT NULL DEFAULT '',  -- what the receiver asked for
            PRIMARY KEY (delivery_id, n)
        );
        CREATE INDEX attempt_by_age ON attempt (at);

        CREATE TABLE schedule (
            id uuid PRIMARY KEY,
            account_id uuid NOT NULL REFERENCES account (id),
            source_job_id uuid REFERENCES job (id) ON DELETE SET NULL,
            name text NOT NULL DEFAULT '',
            cron text NOT NULL,
            zone text NOT NULL,
            options jsonb NOT NULL,
            recheck text NOT NULL,
            overlap text NOT NULL,
            catch_up text NOT NULL,
            enabled boolean NOT NULL DEFAULT true,
            next_run_at timestamptz NOT NULL,
            last_run_at timestamptz,
            last_error text NOT NULL DEFAULT '',
            lease_token uuid,
            lease_until timestamptz,
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            jitter_seconds integer NOT NULL DEFAULT 0,
            starts_at timestamptz,  -- next_run_at and its share of the jitter
            ends_at timestamptz,
            pause_after_failures integer NOT NULL DEFAULT 5,  -- 0 = never
            failures integer NOT NULL DEFAULT 0,  -- failed runs in a row
            CONSTRAINT schedule_recheck CHECK (recheck IN ('all', 'stale', 'risky')),
            CONSTRAINT schedule_overlap CHECK (overlap IN ('skip', 'queue', 'cancel_previous')),
            CONSTRAINT schedule_catch_up CHECK (catch_up IN ('none', 'latest', 'all')),
            CONSTRAINT schedule_jitter CHECK (jitter_seconds >= 0),
            CONSTRAINT schedule_failures CHECK (pause_after_failures >= 0 AND failures >= 0)
        );
        CREATE INDEX schedule_by_account ON schedule (account_id, created_at, id);
        CREATE INDEX schedule_due ON schedule (next_run_at) WHERE enabled;
        ALTER TABLE job ADD FOREIGN KEY (schedule_id) REFERENCES schedule (id) ON DELETE SET NULL;

        CREATE TABLE api_key (
            id uuid PRIMARY KEY,
            account_id uuid NOT NULL REFERENCES account (id),
            name text NOT NULL DEFAULT '',
            hash bytea NOT NULL UNIQUE,
            pepper_id text NOT NULL,
            hint text NOT NULL,
            scopes text[] NOT NULL,
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            expires_at timestamptz,
            last_used_at timestamptz,
            revoked_at timestamptz,
            rotated_to uuid REFERENCES api_key (id)
        );
        CREATE INDEX api_key_by_account ON api_key (account_id, created_at);

        CREATE TABLE idempotency (
            account_id uuid NOT NULL REFERENCES account (id),
            key text NOT NULL,
            fingerprint text NOT NULL,
            job_id uuid NOT NULL REFERENCES job (id) ON DELETE CASCADE,
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (account_id, key)
        );
        CREATE INDEX idempotency_by_job ON idempotency (job_id);
        CREATE INDEX idempotency_by_age ON idempotency (created_at);

        CREATE TABLE notice (
            id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
            kind text NOT NULL,
            subject_id uuid NOT NULL,  -- the endpoint
            since timestamptz NOT NULL,  -- names the streak of failures: one notice of a kind for each
            reason text NOT NULL DEFAULT '',  -- why it was disabled
            state text NOT NULL DEFAULT 'pending',
            tries integer NOT NULL DEFAULT 0,
            next_try_at timestamptz NOT NULL,
            created_at timestamptz NOT NULL,
            UNIQUE (subject_id, kind, since),
            CONSTRAINT notice_kind CHECK (kind IN ('webhook_failing', 'webhook_disabled')),
            CONSTRAINT notice_state CHECK (state IN ('pending', 'sent', 'skipped', 'given_up'))
        );
        CREATE INDEX notice_due ON notice (next_try_at) WHERE state = 'pending';

        -- Blobs that no job points to.
        CREATE TABLE leftover (
            job_id uuid PRIMARY KEY,
            due_at timestamptz NOT NULL,
            sealed boolean NOT NULL DEFAULT false
        );
        CREATE INDEX leftover_due ON leftover (due_at);

        CREATE TABLE person (
            id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            email text NOT NULL UNIQUE,
            password text NOT NULL,  -- argon2id, with its salt and its cost
            operator boolean NOT NULL DEFAULT false,
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            last_sign_in timestamptz,
            CONSTRAINT person_email CHECK (email = lower(email))
        );

        CREATE TABLE member (
            account_id uuid NOT NULL REFERENCES account (id) ON DELETE CASCADE,
            person_id uuid NOT NULL REFERENCES person (id) ON DELETE CASCADE,
            role text NOT NULL,
            created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (account_id, person_id),
            CONSTRAINT member_role CHECK (role IN ('viewer', 'member', 'owner'))
        );
        CREATE INDEX member_by_person ON member (person_id);

        CREATE TABLE session (
            id bytea PRIMARY KEY,  -- SHA-256 of what the cookie holds
            person_id uuid NOT NULL,
            account_id uuid NOT NULL,
            created_at timestamptz NOT NULL,
            seen_at timestamptz NOT NULL,
            expires_at timestamptz NOT NULL,
            -- Who is no member any more is signed out.
            FOREIGN KEY (account_id, person_id) REFERENCES member (account_id, person_id) ON DELETE CASCADE
        );
        CREATE INDEX session_by_person ON session (person_id);
        CREATE INDEX session_by_age ON session (expires_at);

        CREATE TABLE link (
            id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
            hash bytea NOT NULL UNIQUE,  -- SHA-256 of what the link holds
            kind text NOT NULL,
            account_id uuid REFERENCES account (id) ON DELETE CASCADE,
            email text NOT NULL DEFAULT '',  -- for whom; of the first owner nothing is known
            role text NOT NULL DEFAULT 'viewer',
            operator boolean NOT NULL DEFAULT false,
            made_by text NOT NULL DEFAULT '',
            created_at timestamptz NOT NULL,
            expires_at timestamptz NOT NULL,
            CONSTRAINT link_kind CHECK (kind IN ('first_owner', 'invite', 'password')),
            CONSTRAINT link_role CHECK (role IN ('viewer', 'member', 'owner')),
            CONSTRAINT link_account CHECK ((kind = 'invite') = (account_id IS NOT NULL))
        );
        CREATE INDEX link_by_account ON link (account_id);

        CREATE TABLE audit (
            id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
            account_id uuid REFERENCES account (id) ON DELETE CASCADE,  -- none: of the installation
            actor text NOT NULL,
            action text NOT NULL,
            subject text NOT NULL DEFAULT '',
            detail jsonb NOT NULL DEFAULT '{}',
            at timestamptz NOT NULL DEFAULT clock_timestamp()
        );
        CREATE INDEX audit_by_account ON audit (account_id, id);
        CREATE INDEX audit_by_subject ON audit (subject, id);

        CREATE TABLE worker (
            owner text PRIMARY KEY,
            crew text NOT NULL,
            host text NOT NULL,
            pid integer NOT NULL,
            version text NOT NULL,
            slots integer NOT NULL,
            in_hand integer NOT NULL,
            lag_s double precision NOT NULL,
            rss_bytes bigint NOT NULL,
            beat_s double precision NOT NULL,
            started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            beat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            claimed_at timestamptz,
            swept_at timestamptz,
            stopped_at timestamptz,
            drain_since timestamptz
        );
        CREATE INDEX worker_by_crew ON worker (crew);

        CREATE TABLE throughput (
            minute timestamptz NOT NULL,
            shard smallint NOT NULL,
            chunks integer NOT NULL DEFAULT 0,
            addresses bigint NOT NULL DEFAULT 0,
            valid bigint NOT NULL DEFAULT 0,
            invalid bigint NOT NULL DEFAULT 0,
            risky bigint NOT NULL DEFAULT 0,
            leases_expired integer NOT NULL DEFAULT 0,
            PRIMARY KEY (minute, shard)
        );

        CREATE TABLE throttle_edit (
            provider text NOT NULL,
            source text NOT NULL,
            rate double precision,
            sessions integer,
            held boolean NOT NULL DEFAULT false,
            held_until timestamptz,
            note text NOT NULL DEFAULT '',
            edited_by text NOT NULL,
            edited_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (provider, source),
            CONSTRAINT throttle_edit_rate CHECK (rate > 0),
            CONSTRAINT throttle_edit_sessions CHECK (sessions > 0)
        );
    """)
