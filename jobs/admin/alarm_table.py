"""The one table of alarms: pages, terminal, metrics, Prometheus' rules and the runbook come from it."""

from __future__ import annotations

from functools import partial
from typing import Final

from mailsift.jobs.admin.alarm_checks import (
    a_resolver_lies,
    broker_is_spoilt,
    chunks_fail,
    counters_lie,
    database_is_gone,
    deliveries_are_late,
    disks_are_full,
    disks_are_low,
    leases_expire,
    loops_are_late,
    messages_are_stranded,
    nobody_sweeps,
    nobody_works,
    nothing_is_claimed,
    of_database,
    our_network_is_away,
    port25_is,
    processes_are_idle,
    providers_refuse_us,
    providers_slow_us,
    reading_is_slow,
    redis_is_gone,
    resolvers_lie,
    schedules_are_late,
    sources_are_held,
    sources_are_refused,
    store_is_away,
    versions_differ,
    webhooks_fail,
    work_stands_still,
    workers_are_gone,
    workers_are_too_few,
)
from mailsift.jobs.admin.alarms import Alarm, AlarmRule, Installation, Level, evaluate


def alarms(seen: Installation) -> list[Alarm]:
    """Return what is wrong, the worst first."""
    return evaluate(RULES, seen)


_critical = partial(AlarmRule, level=Level.CRITICAL)
_warning = partial(AlarmRule, level=Level.WARNING)
_OWN: Final = (
    '{route!~"/v1/email/.+|/v1/bulk/(jobs|preview)|/lists.*|.*/(results|download|live|events|test|diff)"}'
)
"""Routes that wait for nobody else."""

RULES: Final = (
    _critical(
        code="database_gone",
        title="PostgreSQL does not answer",
        page="",
        check=database_is_gone,
        cause="PostgreSQL is down, has no free connection or no disk, or lacks this release's schema.",
        effect="Requests fail and workers wait; nothing is lost, and all goes on by itself.",
        action=(
            "Is the server up, has it disk and connections (`select count(*) from pg_stat_activity` against "
            "`max_connections`)? `mailsift doctor` says whether the schema is this release's."
        ),
    ),
    _critical(
        code="redis_gone",
        title="Redis does not answer",
        page="/broker",
        check=redis_is_gone,
        cause="Redis or Valkey is down, out of memory or cannot write its file.",
        effect=(
            "Work goes on more slowly: it begins with the next tick, facts are not shared, and each process "
            "keeps "
            "to its share of every limit."
        ),
        action="Bring it back (memory, disk of its append-only file). Nothing has to be mended afterwards.",
    ),
    _critical(
        code="no_workers",
        title="Nobody works",
        page="/workers",
        check=of_database(nobody_works),
        cause="No worker process is heard of, or operators have drained all of them.",
        effect="Jobs wait; nothing is lost, but nothing moves.",
        action=(
            "Let drained workers claim again, or start some. If they die at once their log says why: "
            "`bad_overrides`, `database_not_migrated` (run `mailsift migrate`), a password of Redis."
        ),
    ),
    _critical(
        code="ready_too_long",
        title="Work is not claimed",
        page="/workers?state=active&sort=-claim",
        check=of_database(nothing_is_claimed),
        cause="Workers have free slots and do not take what is ready: wake-ups or claims do not work.",
        effect="Lists wait although there is room for them.",
        action=(
            "Look for `heartbeat.error`, `wake_up.lost` and `tick.lost` in the workers' logs, then restart "
            "the "
            "workers: that is safe at any time."
        ),
    ),
    _critical(
        code="worker_idle",
        title="A process claims nothing",
        page="/workers?state=active&sort=-claim",
        check=of_database(processes_are_idle),
        cause="A worker process is up for more than a minute and no longer hears its broker.",
        effect="Its slots are lost; the others do its part.",
        action="Restart it. What it held, if anything, is taken over.",
    ),
    _critical(
        code="work_stands_still",
        title="Work stands still",
        page="/leases?sort=-held",
        check=of_database(work_stands_still),
        cause=(
            "Every slot is held by something that does not end: lists that are read for long, or a server "
            "that hangs."
        ),
        effect="Ready work ages and no address gets a verdict.",
        action=(
            "Look at what holds the slots longest. Take those leases back, pause their job, or add workers; "
            "`MAILSIFT_CHUNK_SLOTS` is how much a process takes at a time."
        ),
    ),
    _warning(
        code="workers_behind",
        title="Too few workers",
        page="/workers?state=active",
        hold="5m",
        check=of_database(workers_are_too_few),
        cause="More work comes in than all slots together get done.",
        effect="Chunks wait for a quarter of an hour; small lists still go first.",
        action=(
            "Add workers, or raise `MAILSIFT_CHUNK_SLOTS` if the CPU is not full. Where one provider's "
            "limit is "
            "what is waited for, more source addresses help and more workers do not."
        ),
    ),
    _warning(
        code="reading_slow",
        title="Small lists wait to be read",
        page="/jobs?state=intake",
        check=of_database(reading_is_slow),
        cause="Reading is behind: many lists at once, large ones, a slow disk or store.",
        effect="Customers see *queued* for longer than a minute, even for a short list.",
        action=(
            "Look at the lists that are being read and at `job.step.error` in the logs. Is there room in "
            "`MAILSIFT_HOME` and in the store? Otherwise add workers."
        ),
    ),
    _critical(
        code="sweep_late",
        title="Nobody sweeps",
        page="/workers?sort=-lag",
        check=of_database(nobody_sweeps),
        hold="30s",
        cause=(
            "Every worker and sweeper looks after the dead's leases; none has for half a minute, so all hang."
        ),
        effect="Leases of dead workers, due webhooks and due schedules stay where they are.",
        action="Restart the workers; look at their loop lag and at the database first.",
    ),
    _critical(
        code="counter_drift",
        title="A counter is wrong",
        page="/jobs?state=open",
        check=of_database(counters_lie),
        hold="2m",
        cause="The counters of an open job disagree with its chunks. This must never happen.",
        effect="The job may not end by itself.",
        action="Keep the database as it is, note job and release, and report it.",
    ),
    _critical(
        code="port25_closed",
        title="Port 25 is closed",
        page="/workers?health=port25",
        check=partial(port25_is, "closed"),
        cause=(
            "From a worker's machine no mail server is reached, and never was: a firewall, the network's "
            "provider."
        ),
        effect="Deep verdicts of that machine end risky, `probe_unavailable`. None is called invalid for it.",
        action=(
            "`mailsift doctor` on that machine; have the port opened, or probe through a SOCKS proxy "
            "(`MAILSIFT_SOURCE_ADDRESSES`). Run the risky rows again afterwards."
        ),
    ),
    _critical(
        code="network_away",
        title="Our network is away",
        page="/workers?health=port25",
        check=our_network_is_away,
        cause=(
            "Mail servers that were reached before are silent, all at once, or one machine on the way "
            "answers for all of them (log: `port_25.intercepted`): routes, a firewall, the uplink."
        ),
        effect="Addresses wait and are asked again by themselves; no verdict is worse for it.",
        action="Look at routes, port 25 and `MAILSIFT_SOURCE_ADDRESSES`; `mailsift doctor` tries them all.",
    ),
    _critical(
        code="resolver_distrusted",
        title="No resolver can be trusted",
        page="/workers?health=resolver",
        check=resolvers_lie,
        cause="Every name server denies domains everybody knows, knows names nobody has, or does not answer.",
        effect=(
            "Addresses wait; what was said meanwhile is asked again, and nothing is called invalid for it."
        ),
        action=(
            "Look at `MAILSIFT_DNS_SERVERS` and `MAILSIFT_DNS_CANARIES`, and at what the resolver answers "
            "(`dns.resolver_distrusted` in the log says). Run one of your own: `deploy/unbound`."
        ),
    ),
    _warning(
        code="resolver_doubtful",
        title="A resolver cannot be trusted",
        page="/workers?health=resolver",
        check=a_resolver_lies,
        cause="One of several name servers lies or does not answer.",
        effect="The others are asked; if they go too, work waits.",
        action=(
            "Mend it or take it out of `MAILSIFT_DNS_SERVERS`; `dns.resolver_distrusted` in the log says why."
        ),
    ),
    _critical(
        code="provider_refuses",
        title="A provider refuses us",
        page="/throttles?state=refused",
        check=providers_refuse_us,
        hold="5m",
        cause="A large provider refuses our address, name or sender: a block list, a reverse name, a policy.",
        effect="Its addresses wait, then end risky, `probe_blocked`; none is called invalid for it.",
        action=(
            "Check reverse name and block lists of the source (`mailsift doctor`); take it out of "
            "`MAILSIFT_SOURCE_ADDRESSES` until it is delisted, or hold the provider."
        ),
    ),
    _critical(
        code="source_refused",
        title="Many providers refuse a source",
        page="/throttles?state=refused",
        check=sources_are_refused,
        hold="5m",
        cause="Three providers or more refuse one address of ours at once: a block list, a reverse name.",
        effect="Their addresses wait, then end risky, `probe_blocked`; others will refuse us, too.",
        action=(
            "Hold the source (`/ops/workers`, `mailsift ops throttles --hold '*' --source`), find the list "
            "that has it, mend what got it there, and let go of it once it is delisted."
        ),
    ),
    _warning(
        code="source_held",
        title="A source is held",
        page="/workers",
        check=of_database(sources_are_held),
        cause=(
            "An address of ours is in a block list (`MAILSIFT_BLOCK_LISTS`), which holds it as long as that "
            "lasts, or an operator holds it."
        ),
        effect="The other sources do its part; where there is none, addresses wait for it.",
        action=(
            "Listed: ask for delisting where the list has a form, and look at `/ops/ledger` for what got it "
            "there; it goes on by itself within the hour after. Held by somebody: let go of it "
            "(`mailsift ops throttles --let-go '*' --source`) once the reason is gone."
        ),
    ),
    _warning(
        code="provider_closed",
        title="A provider is left alone",
        page="/throttles?state=closed",
        check=providers_slow_us,
        hold="15m",
        cause="A large provider said that we ask too fast.",
        effect="It is left alone for a while and then asked more slowly; its addresses wait.",
        action=(
            "Nothing, if it passes. If it comes again: lower its limit here, or use more source addresses."
        ),
    ),
    _critical(
        code="disk_full",
        title="A disk is full",
        page="/workers?health=disk",
        check=disks_are_full,
        cause="There is no room where a process keeps its files (`MAILSIFT_HOME`).",
        effect="Uploads are refused (507), and jobs wait for storage; nothing is lost.",
        action=(
            "Make room. `blob-cache` below `MAILSIFT_HOME` may be emptied while nothing runs there. "
            "Everything "
            "goes on by itself."
        ),
    ),
    _warning(
        code="disk_low",
        title="A disk is nearly full",
        page="/workers?health=disk",
        check=disks_are_low,
        hold="5m",
        cause="Lists and results grow faster than old ones are deleted.",
        effect="None yet; at the end uploads are refused.",
        action=(
            "Make room, shorten how long jobs are kept, or move the store (`MAILSIFT_BLOB_URL`) to a bucket."
        ),
    ),
    _critical(
        code="store_away",
        title="The store fails",
        page="/workers?health=store",
        check=store_is_away,
        cause="The store of lists and results does not take or give blobs: an outage, credentials, no room.",
        effect=(
            "Uploads are refused with 503 or 507; jobs wait for storage, lose no attempt and go on by "
            "themselves."
        ),
        action="Look at the store and its credentials; `blob_store_failed` in the logs names the error.",
    ),
    _warning(
        code="chunks_fail",
        title="Chunks fail",
        page="/failing-chunks?state=open",
        check=of_database(chunks_fail),
        cause="Something in these chunks kills or breaks whoever works on them, or workers are killed often.",
        effect="They are tried again; one that keeps doing harm is cut down to the one address that does it.",
        action=(
            "The page names the error of each. `chunk.error` in the log has its place; report release and "
            "error. "
            "A chunk can be started afresh there."
        ),
    ),
    _warning(
        code="leases_expire",
        title="Leases run out",
        page="/leases?state=expired",
        check=of_database(leases_expire),
        hold="5m",
        cause=(
            "Workers die (out of memory, restarts), hang, or wait for the database longer than a lease lasts."
        ),
        effect="Work is done twice and counted once.",
        action=(
            "Look for killed processes (`dmesg`, container restarts) and loop lag; `MAILSIFT_LEASE_SECONDS`."
        ),
    ),
    _warning(
        code="deliveries_late",
        title="Webhooks are late",
        page="/deliveries?state=pending",
        check=of_database(deliveries_are_late),
        cause="A delivery is due at an endpoint that works, and nobody sends it.",
        effect="Customers hear late that their lists are done.",
        action="As for work that is not claimed; also look for `webhook.error` in the logs.",
    ),
    _warning(
        code="webhooks_fail",
        title="Webhooks fail",
        page="/deliveries?state=failing",
        check=of_database(webhooks_fail),
        hold="10m",
        cause="Receivers began to fail within the last hour, or a fifth of all does: theirs, or our way out.",
        effect="Their events are tried again for days; owners are told.",
        action=(
            "One customer's: it is theirs. Many at once: our names, egress rules, or the clock, which is in "
            "every "
            "signature. Send again what was given up once it works."
        ),
    ),
    _warning(
        code="schedules_late",
        title="Schedules are late",
        page="/schedules?state=late",
        check=of_database(schedules_are_late),
        cause="Workers are down, or the list of a run cannot be stored (`schedule.error`).",
        effect="Reruns begin late; a slot that is overdue for long is left out.",
        action="Look at the workers and at the store.",
    ),
    _warning(
        code="versions_differ",
        title="Releases differ",
        page="/workers?sort=version",
        check=versions_differ,
        hold="10m",
        cause="An upgrade stopped half-way: processes of two releases run side by side.",
        effect="Both work; what the newer one brings is missing where the older one answers.",
        action="Go on with the upgrade, or back: replace the processes of one release.",
    ),
    _warning(
        code="worker_gone",
        title="A process is gone",
        page="/workers?state=gone",
        check=of_database(workers_are_gone),
        cause=(
            "A process stopped without a word and no other began since: killed, out of memory, a machine "
            "that is off."
        ),
        effect="Its leases run out and others do its work; there are fewer hands.",
        action=(
            "Start it again, or leave it: after an hour this is no news any more. `dmesg` knows of killed "
            "ones."
        ),
    ),
    _warning(
        code="loop_lag",
        title="An event loop is blocked",
        page="/workers?sort=-lag",
        check=of_database(loops_are_late),
        expr=(
            "max by (job, instance) (mailsift_worker_loop_lag_seconds) > 1 "
            "or max by (job, instance) (mailsift_api_loop_lag_seconds) > 1"
        ),
        cause=(
            "Too many processes for the cores, swapping, a CPU limit that throttles (Kubernetes), or a "
            "defect."
        ),
        effect="Heartbeats and deadlines come late.",
        action="Give it CPU, or run fewer processes (`MAILSIFT_WORKER_PROCESSES`).",
    ),
    _warning(
        code="broker_stranded",
        title="Wake-ups lie in the broker",
        page="/broker",
        check=messages_are_stranded,
        hold="10m",
        cause="Wake-ups were taken by processes that died, or are not consumed.",
        effect="None for jobs: they do not depend on wake-ups.",
        action=(
            "Look for idle processes. Once workers run the queue may be emptied: "
            "`redis-cli del ms:celery:mailsift ms:celery:unacked ms:celery:unacked_index`."
        ),
    ),
    _warning(
        code="broker_spoilt",
        title="Keys of the broker are overwritten",
        page="/broker",
        check=broker_is_spoilt,
        cause="Another program writes to our Redis, and no worker runs that would mend it.",
        effect="Nobody is woken; what is ready is found every few seconds all the same.",
        action="Nothing once workers run: they delete such keys. Keep others out of this Redis.",
    ),
    # What only Prometheus sees: counters of processes over time, and those that cannot be scraped.
    _critical(
        code="api_down",
        title="An API cannot be scraped",
        page="",
        expr='up{job="mailsift-api"} == 0',
        hold="2m",
        cause="The process is not there, hangs, or its metrics port is closed to Prometheus.",
        effect="Its requests go to the others; without another one nobody is answered.",
        action=(
            "Is it there (`systemctl status mailsift-api`, `docker compose ps`, `kubectl get pods`)? Its "
            "last line "
            "says why it ended. `/healthz` says whether it answers, `/readyz` whether its database does."
        ),
    ),
    _warning(
        code="worker_down",
        title="A worker cannot be scraped",
        page="/workers?state=gone",
        expr='up{job="mailsift-worker"} == 0',
        hold="2m",
        cause="The worker is not there, hangs, or its metrics port is closed to Prometheus.",
        effect="The others do its chunks after `MAILSIFT_LEASE_SECONDS`.",
        action="Look at its last lines (out of memory? `bad_overrides`?) and start it again.",
    ),
    _warning(
        code="wakeups_lost",
        title="Wake-ups do not reach the broker",
        page="/broker",
        expr='sum by (job) (increase(mailsift_wakeups_total{fate="lost"}[10m])) > 0',
        hold="5m",
        cause="Redis does not take them.",
        effect="Work begins up to `MAILSIFT_SWEEP_SECONDS` later.",
        action="As for Redis that does not answer.",
    ),
    _warning(
        code="chunk_errors",
        title="Chunks end in errors",
        page="/failing-chunks?state=open",
        expr=(
            'sum(increase(mailsift_chunk_attempts_total{outcome="error"}[15m])) '
            "/ sum(increase(mailsift_chunk_attempts_total[15m])) > 0.05\n"
            'and sum(increase(mailsift_chunk_attempts_total{outcome="error"}[15m])) >= 3'
        ),
        hold="5m",
        cause="More than 5 % of the attempts at chunks fail: the database, the store, or a defect.",
        effect="They go back and are tried again.",
        action=(
            "`chunk.error` names the error and its place; a defect is reported with release, error and place."
        ),
    ),
    _warning(
        code="step_errors",
        title="Reading or finishing fails",
        page="/jobs?state=open",
        expr='sum by (step) (increase(mailsift_step_attempts_total{outcome="error"}[15m])) >= 3',
        hold="0s",
        cause="Usually the store, the scratch space, or memory for reading a list.",
        effect="Outages cost a job nothing; it waits. What the file itself causes ends it.",
        action="`job.step.error` names the error and the job.",
    ),
    _warning(
        code="poison_chunks",
        title="A chunk kept killing its workers",
        page="/failing-chunks?state=open",
        expr="sum by (action) (increase(mailsift_poison_total[1h])) > 0",
        hold="0s",
        cause="One of its addresses does harm to whoever looks at it.",
        effect="The chunk was split, or that one address ended risky; the others get their verdicts.",
        action="Report release and address to the developers.",
    ),
    _critical(
        code="resolver_failing",
        title="Names cannot be looked up",
        page="/workers?health=resolver",
        expr=(
            'sum(increase(mailsift_addresses_total{result="dns_unavailable"}[15m])) '
            "/ sum(increase(mailsift_addresses_total[15m])) > 0.05\n"
            "and sum(increase(mailsift_addresses_total[15m])) > 100"
        ),
        hold="5m",
        cause="A public resolver that limits you, or one of your own without enough memory or sockets.",
        effect="More than 5 % of the verdicts end risky, `dns_unavailable`.",
        action=(
            "Run a resolver beside the workers (`MAILSIFT_DNS_SERVERS`, `deploy/unbound`), then run the "
            "risky "
            "rows again."
        ),
    ),
    _critical(
        code="refused_often",
        title="Many answers refuse us",
        page="/throttles?state=refused",
        expr=(
            'sum(increase(mailsift_smtp_reply_total{class="refused_us"}[30m])) '
            "/ sum(increase(mailsift_smtp_reply_total[30m])) > 0.2\n"
            "and sum(increase(mailsift_smtp_reply_total[30m])) > 50"
        ),
        hold="5m",
        cause="A source is on a block list, or its reverse name is wrong.",
        effect="A fifth of all answers is about us and not about a mailbox; those addresses end risky.",
        action="`mailsift doctor`; take the source out of `MAILSIFT_SOURCE_ADDRESSES` until it is delisted.",
    ),
    _warning(
        code="attempts_fail",
        title="Most attempts to deliver fail",
        page="/deliveries?state=failing",
        expr=(
            '1 - sum(increase(mailsift_webhook_attempts_total{outcome="delivered"}[30m])) '
            "/ sum(increase(mailsift_webhook_attempts_total[30m])) > 0.5\n"
            "and sum(increase(mailsift_webhook_attempts_total[30m])) >= 20"
        ),
        hold="10m",
        cause="One busy receiver that is down, or our way out (names, egress rules, the clock).",
        effect="Events arrive late; they are tried again for days.",
        action="Look at which endpoints fail: one customer's is theirs, many are ours.",
    ),
    _warning(
        code="schedules_missed",
        title="Slots of schedules were left out",
        page="/schedules?state=trouble",
        expr='sum by (reason) (increase(mailsift_schedule_missed_total{reason=~"missed|failed"}[1h])) > 0',
        hold="0s",
        cause="They were overdue when a worker came to them, or their list could not be made.",
        effect="That run is missing; the next one is not.",
        action="Tell the owners, or press *Run now* on the schedule's page.",
    ),
    _critical(
        code="api_errors",
        title="Answers are errors of ours",
        page="",
        expr=(
            'sum(rate(mailsift_api_requests_total{status=~"5.."}[10m])) '
            "/ sum(rate(mailsift_api_requests_total[10m])) > 0.01\n"
            'and sum(increase(mailsift_api_requests_total{status=~"5.."}[10m])) > 5'
        ),
        hold="2m",
        cause="A server we need does not answer (503), or a defect (500).",
        effect="More than 1 % of the requests fail.",
        action=(
            "`request.broken` in the log names the error and its place, with the request id the customer has."
        ),
    ),
    _warning(
        code="api_slow",
        title="The API is slow",
        page="",
        expr=(
            f"histogram_quantile(0.9, sum by (le) (rate(mailsift_api_request_seconds_bucket{_OWN}[10m]))) > "
            f"1\n"
            f"and on() sum(increase(mailsift_api_request_seconds_count{_OWN}[10m])) > 50"
        ),
        hold="5m",
        cause="CPU of the API, the database, or a blocked loop.",
        effect="A tenth of the requests take more than a second; those that wait for others are not counted.",
        action="Look at the loop lag and the CPU of the API, then at slow statements of the database.",
    ),
)
"""Every alarm there is."""

RULE_OF: Final = {rule.code: rule for rule in RULES}
"""By code."""
