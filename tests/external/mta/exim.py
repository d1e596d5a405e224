"""Exim with an access list that asks which of its addresses or domains a client came to."""

from __future__ import annotations

from tests.external.chroot import Chroot
from tests.external.mta.domains import BLOCK_LIST, HELO, NOBODY, PEOPLE, Site

_HABITS = (
    "plain",
    "catch-all",
    "elsewhere",
    "listed",
    "helo",
    "reverse",
    "defer",
    "defer-helo",
    "few-recipients",
    "few-sessions",
    "rate",
    "tls",
    "hesitant",
    "rate-denied",
    "callout",  # asks the server behind it, which is `behind`; those below ask others
    "callout-down",
    "callout-refused",
    "behind",
)
SITES = {habit: Site(f"{habit}.exim.test", f"127.0.5.{number}") for number, habit in enumerate(_HABITS, 60)}
"""The sites by habit; `elsewhere` is a domain this server knows nothing of."""

RECIPIENTS = 10
RATE = 6
"""Recipients a second."""

BANNER_SECONDS = 1

# The words in capitals are macros, defined in front of this text.
_CONFIGURATION = f"""\
primary_hostname = mx.exim.test
daemon_smtp_ports = PORT
local_interfaces = INTERFACES
exim_path = /usr/sbin/exim4
spool_directory = FOLDER/spool
log_file_path = FOLDER/spool/%slog
write_rejectlog = false
keep_environment =
rfc1413_query_timeout = 0s
host_lookup = *
recipients_max = {RECIPIENTS}
smtp_accept_max_per_host = ${{if eq{{$received_ip_address}}{{AT_FEW_SESSIONS}}{{2}}{{0}}}}
tls_advertise_hosts = ${{if eq{{$received_ip_address}}{{AT_TLS}}{{*}}}}
tls_certificate = FOLDER/tls.pem
domainlist local_domains = DOMAINS
acl_smtp_connect = at_connect
acl_smtp_helo = at_helo
acl_smtp_rcpt = at_rcpt

begin acl
at_connect:
  warn condition = ${{if eq{{$received_ip_address}}{{AT_HESITANT}}}}
       delay = {BANNER_SECONDS}s
  accept

at_helo:
  deny condition = ${{if eq{{$received_ip_address}}{{AT_HELO}}}}
       condition = ${{if !eq{{$sender_helo_name}}{{{HELO}}}}}
       message = Access denied - Invalid HELO name (See RFC2821 4.1.1.1)
  defer condition = ${{if eq{{$received_ip_address}}{{AT_DEFER_HELO}}}}
  accept

at_rcpt:
  defer domains = DOMAIN_DEFER
  deny domains = DOMAIN_LISTED
       dnslists = {BLOCK_LIST}
       message = JunkMail rejected - $sender_fullhost is in an RBL: $dnslist_text
  deny domains = DOMAIN_REVERSE
       !verify = reverse_host_lookup
  defer domains = DOMAIN_RATE
        ratelimit = {RATE} / 1s / per_rcpt / strict
        message = Sender rate overlimit - $sender_rate / $sender_rate_period
  deny domains = DOMAIN_RATE_DENIED
       ratelimit = {RATE} / 1h / per_rcpt / strict
       message = Sender rate overlimit - $sender_rate / $sender_rate_period
  deny domains = DOMAIN_CALLOUT_REFUSED
       condition = ${{if eq{{$received_ip_address}}{{AT_BEHIND}}}}
       message = relay not permitted
  accept domains = DOMAIN_CALLOUT : DOMAIN_CALLOUT_DOWN : DOMAIN_CALLOUT_REFUSED
         condition = ${{if !eq{{$received_ip_address}}{{AT_BEHIND}}}}
         endpass
         verify = recipient/callout=5s,no_cache
  require message = relay not permitted
          domains = +local_domains
  require verify = recipient
  accept

begin routers
behind:
  driver = manualroute
  domains = DOMAIN_CALLOUT : DOMAIN_CALLOUT_REFUSED
  condition = ${{if !eq{{$received_ip_address}}{{AT_BEHIND}}}}
  route_list = * AT_BEHIND
  self = send
  transport = behind

gone:
  driver = manualroute
  domains = DOMAIN_CALLOUT_DOWN
  route_list = * {NOBODY}
  transport = behind

everybody:
  driver = accept
  domains = DOMAIN_CATCH_ALL
  transport = nowhere

closed:
  driver = redirect
  domains = DOMAIN_PLAIN
  local_parts = closed
  data = :fail: this account has been disabled
  allow_fail

later:
  driver = redirect
  domains = DOMAIN_PLAIN
  local_parts = later
  data = :defer: the directory is being moved
  allow_defer

somebody:
  driver = accept
  domains = +local_domains
  local_parts = {" : ".join(PEOPLE)}
  transport = nowhere

begin transports
behind:
  driver = smtp
  port = PORT
  hosts_avoid_tls = *

nowhere:
  driver = appendfile
  file = /dev/null
"""


def start_exim(chroot: Chroot) -> None:
    """Start Exim, and wait until every site answers."""
    user = "Debian-exim"
    folder = chroot.folder("exim")
    chroot.folder("exim/spool", user=user, mode=0o750)
    chroot.write_certificate("exim/tls.pem", user=user)
    named = {habit.upper().replace("-", "_"): site for habit, site in SITES.items()}
    macros = {
        "FOLDER": folder,
        "PORT": str(chroot.port),
        "INTERFACES": " : ".join(site.address for site in SITES.values()),
        "DOMAINS": " : ".join(site.domain for habit, site in SITES.items() if habit != "elsewhere"),
        **{f"AT_{name}": site.address for name, site in named.items()},
        **{f"DOMAIN_{name}": site.domain for name, site in named.items()},
    }
    # A macro must not begin with the name of an earlier one.
    definitions = "".join(f"{name} = {macros[name]}\n" for name in sorted(macros, reverse=True))
    config = chroot.write("exim/configuration", definitions + _CONFIGURATION)
    addresses = [site.address for site in SITES.values()]
    chroot.start(["/usr/sbin/exim4", "-bdf", "-C", config, "-oP", f"{folder}/spool/pid"], listening=addresses)
