"""BIND, NSD, Knot and PowerDNS that serve the sandbox's world, and unbound in front of each."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import dns.exception
import dns.message
import dns.query
from dns.rcode import Rcode
from dns.rdatatype import RdataType

from mailsift.sandbox.dns_server import ASKED, SandboxZone, ZoneRecord
from mailsift.sandbox.world import SandboxWorld
from tests.external.chroot import Chroot
from tests.support.ports import free_port

ADDRESS = "127.0.0.1"
_PATIENCE = 20.0
MORE = {
    "*.wild.test": "IN MX 10 mx.ordinary-host.test.",
    "alias-of-nothing.test": "IN CNAME nobody-has-this.test.",
    "deep.below-nothing.test": "IN MX 10 mx.ordinary-host.test.",
    "bogus.test": "IN MX 10 mx.ordinary-host.test.",
    "delegated.test": f"IN NS ns.delegated.test.\nns.delegated.test. IN A {ADDRESS}",
    "renamed.test": "IN DNAME ordinary-host.test.",
}
"""What only real servers can show, by owner: wildcards, empty names, delegations, what is not signed …"""

_SOA = """\
@ IN SOA ns.names.test. hostmaster.names.test. 1 3600 600 86400 60
@ IN NS ns.names.test.
"""
_GLUE = f"ns.names.test. IN A {ADDRESS}"
_NOT_SERVED = frozenset({Rcode.NXDOMAIN, Rcode.SERVFAIL, Rcode.REFUSED})

# Every name there is, as text; a word in capitals is filled in.
_CONFIGURATIONS = {
    "bind": """\
options {
  directory "FOLDER"; pid-file none; lock-file none; session-keyfile none;
  listen-on port PORT { ADDRESS; }; listen-on-v6 { none; }; recursion no; notify no; dnssec-validation no;
  max-records-per-type 0;
};
controls {};
ZONES""",
    "nsd": """\
server:
  ip-address: ADDRESS@PORT
  username: ""
  database: ""
  zonesdir: "FOLDER"
  pidfile: "FOLDER/pid"
  xfrdfile: "FOLDER/xfrd"
  xfrdir: "FOLDER"
  zonelistfile: "FOLDER/zones"
  server-count: 1
remote-control:
  control-enable: no
ZONES""",
    "knot": """\
server:
  rundir: FOLDER
  listen: ADDRESS@PORT
  udp-workers: 1
  tcp-workers: 1
  background-workers: 1
log:
  - target: stderr
    any: notice
database:
  storage: FOLDER
template:
  - id: default
    storage: FOLDER
zone:
ZONES""",
    "powerdns": """\
launch=bind
dname-processing=yes
bind-config=FOLDER/zones.conf
local-address=ADDRESS
local-port=PORT
socket-dir=FOLDER
setuid=0
setgid=0
guardian=no
daemon=no
disable-syslog=yes
write-pid=no
""",
}
_ZONE = {
    "bind": 'zone "{zone}" {{ type primary; file "{file}"; check-names ignore; check-integrity no; }};\n',
    "nsd": 'zone:\n  name: "{zone}"\n  zonefile: "{file}"\n',
    "knot": "  - domain: {zone}\n    file: {file}\n",
    "powerdns": 'zone "{zone}" {{ type master; file "{file}"; }};\n',
}
_COMMANDS = {
    "bind": ("/usr/sbin/named", "-g", "-n", "1", "-c", "FOLDER/conf"),
    "nsd": ("/usr/sbin/nsd", "-d", "-c", "FOLDER/conf"),
    "knot": ("/usr/sbin/knotd", "-c", "FOLDER/conf"),
    "powerdns": ("/usr/sbin/pdns_server", "--config-dir=FOLDER"),
}
SERVERS = tuple(_COMMANDS)

# It asks its own machine, where "test" exists, and for bogus.test it wants signatures that are not there.
_UNBOUND = """\
server:
  interface: ADDRESS@PORT
  do-not-query-localhost: no
  chroot: ""
  username: ""
  directory: "FOLDER"
  pidfile: "FOLDER/unbound.pid"
  logfile: ""
  use-syslog: no
  num-threads: 1
  local-zone: "test." nodefault
  trust-anchor: "bogus.test. DS 12345 8 2 {digest}"
remote-control:
  control-enable: no
{stubs}"""


def zone_files(world: SandboxWorld) -> dict[str, str]:
    """Return the sandbox's world as master files (RFC 1035 section 5): the root and what is below."""
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for record in dict.fromkeys(_records(SandboxZone(world), world)):
        lines[record.owner.rpartition(".")[2]].append(f"{record.owner}. IN {record.rtype.name} {record.data}")
    lines["test"] += [f"{owner}. {data}" for owner, data in MORE.items()]
    lines["test"].append(_GLUE)
    lines[""] = [_GLUE, *(f"{zone}. IN NS ns.names.test." for zone in lines)]
    return {
        f"{zone}.": f"$TTL 300\n$ORIGIN {zone}.\n{_SOA}" + "\n".join([*own, ""])
        for zone, own in lines.items()
    }


def _records(zone: SandboxZone, world: SandboxWorld) -> Iterator[ZoneRecord]:
    for name in (*world.domains, *world.hosts, *world.aliases, *_exchangers(zone, world)):
        answers = [zone.answer(name, kind) for kind in (RdataType.MX, RdataType.A, RdataType.AAAA)]
        if any(answer.rcode in _NOT_SERVED for answer in answers):
            continue
        yield ZoneRecord(name, RdataType.TXT, '"here"') if name not in world.aliases else _alias(world, name)
        for answer in answers:
            yield from (_owned(record, name) for record in answer.records if name not in world.aliases)


def _exchangers(zone: SandboxZone, world: SandboxWorld) -> Iterator[str]:
    """Yield the names of exchangers that are stage only."""
    for name in world.domains:
        records = zone.answer(name, RdataType.MX).records
        hosts = [record.data.split()[-1].rstrip(".") for record in records if record.rtype is RdataType.MX]
        yield from filter(None, hosts)


def _owned(record: ZoneRecord, name: str) -> ZoneRecord:
    return record if record.owner != ASKED else ZoneRecord(name, record.rtype, record.data, record.ttl)


def _alias(world: SandboxWorld, name: str) -> ZoneRecord:
    return ZoneRecord(name, RdataType.CNAME, f"{world.aliases[name]}.")


def start_name_server(chroot: Chroot, kind: str, zones: Mapping[str, str]) -> str:
    """Start a name server for the zones, and wait until it answers; returns "host:port"."""
    port, folder = free_port(), chroot.folder(kind)
    for zone, text in zones.items():
        chroot.write(f"{kind}/zone-{zone}", text)
    served = "".join(_ZONE[kind].format(zone=zone, file=f"{folder}/zone-{zone}") for zone in zones)
    chroot.write(f"{kind}/zones.conf", served)
    name = "pdns.conf" if kind == "powerdns" else "conf"
    chroot.write(f"{kind}/{name}", _filled(_CONFIGURATIONS[kind], folder, port).replace("ZONES", served))
    chroot.start([_filled(part, folder, port) for part in _COMMANDS[kind]], listening=[ADDRESS], port=port)
    for zone in zones:  # some listen before they have read their zones
        _await_zone(zone, port)
    return f"{ADDRESS}:{port}"


def _await_zone(zone: str, port: int) -> None:
    ends_at = time.monotonic() + _PATIENCE
    question = dns.message.make_query(zone, RdataType.SOA)
    while time.monotonic() < ends_at:
        with suppress(dns.exception.Timeout):
            if dns.query.udp(question, ADDRESS, port=port, timeout=1).rcode() is Rcode.NOERROR:
                return
        time.sleep(0.02)  # the server has no other way to say that it has read it
    raise AssertionError(f"zone {zone} is not served")


def start_resolver(chroot: Chroot, server: str, zones: Iterable[str]) -> str:
    """Start unbound, which asks this name server about the zones; returns "host:port"."""
    port, behind = free_port(), server.partition(":")[2]
    folder = chroot.folder(f"unbound-{behind}")
    stubs = "".join(f'stub-zone:\n  name: "{zone}"\n  stub-addr: {ADDRESS}@{behind}\n' for zone in zones)
    text = _filled(_UNBOUND.format(digest="00" * 32, stubs=stubs), folder, port)
    conf = chroot.write(f"unbound-{behind}/conf", text)
    chroot.start(["/usr/sbin/unbound", "-d", "-p", "-c", conf], listening=[ADDRESS], port=port)
    return f"{ADDRESS}:{port}"


def _filled(text: str, folder: str, port: int) -> str:
    return text.replace("FOLDER", folder).replace("PORT", str(port)).replace("ADDRESS", ADDRESS)
