-- Which schedules fetch their list for every run.

ALTER TABLE schedule ADD COLUMN fetches boolean NOT NULL DEFAULT false;

UPDATE schedule SET fetches = true FROM job WHERE job.id = source_job_id AND job.source_bytes = 0;
