"""Everything that can be set, read once from MAILSIFT_* environment variables."""

from __future__ import annotations

import errno
import ipaddress
import math
import os
import re
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypeVar

import platformdirs
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticUseDefault
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from mailsift.accounts.doors import Door
from mailsift.events.mail import parse_relay
from mailsift.events.webhook_url import split_hosts
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.probe.config import host_name
from mailsift.pipeline.probe.wire import hello
from mailsift.pipeline.throttle import StopPolicy
from mailsift.storage.server_urls import check_database_url, check_redis_url

T = TypeVar("T")

PREFIX = "MAILSIFT_"


def _check_secrets(folder: Path, variables: Collection[str]) -> None:
    """See to it that what is there can be read: the library passes a folder over, and breaks at all else."""
    variable, place = f"{PREFIX}SECRETS_DIR", folder
    try:
        for file in folder.iterdir():
            if file.name.upper() in variables:
                variable, place = file.name.upper(), file
                file.read_bytes().decode("utf-8")
    except OSError as error:
        text = f"{variable}: {place} can’t be read ({error.strerror})."
        raise MailsiftError("bad_settings", text) from None
    except UnicodeDecodeError:
        raise MailsiftError("bad_settings", f"{variable}: {place} is no UTF-8.") from None


def _split(value: Any) -> Any:
    """Turn "a, b" into ("a", "b"); an empty variable is an empty list."""
    if isinstance(value, str):
        return tuple(part for part in (piece.strip() for piece in value.split(",")) if part)
    return value


def _checked(check: Callable[[str], object]) -> AfterValidator:
    """Accept what a check raises no ValueError for; it may be a secret, which no error repeats."""

    def checked(value: str | SecretStr) -> str | SecretStr:
        check(value.get_secret_value() if isinstance(value, SecretStr) else value)
        return value

    return AfterValidator(checked)


def _endpoint(value: str) -> None:
    """Accept "address:port", an IPv6 address in brackets; a name would have to be looked up first."""
    host, _, port = value.rpartition(":")
    try:
        in_brackets = host[:1] + host[-1:] == "[]"
        ipaddress.IPv6Address(host[1:-1]) if in_brackets else ipaddress.IPv4Address(host)
        valid = 0 < int(port) < 65536
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("expected address:port,address:port")


def _scheme(*allowed: str) -> AfterValidator:
    """Accept only URLs of these schemes."""

    def check(url: str) -> None:
        if url.partition("://")[0] not in allowed:
            raise ValueError("expected " + " or ".join(f"{scheme}://..." for scheme in allowed))

    return _checked(check)


def _like(pattern: str, expected: str) -> AfterValidator:
    """Accept only what begins as a pattern says; others are told in words what is expected."""

    def check(value: str) -> None:
        if not re.match(pattern, value):
            raise ValueError(f"expected {expected}")

    return _checked(check)


def _number(value: Any) -> Any:
    """Pass over what Kubernetes says of a Service: of one called mailsift-api, in MAILSIFT_API_PORT."""
    if isinstance(value, str) and _SERVICE_ADDRESS.match(value):
        raise PydanticUseDefault
    return value


def _greeting(value: str) -> None:
    try:
        hello("EHLO", value)
    except MailsiftError:
        raise ValueError("expected a name in DNS, mail.example.com, in ASCII") from None


_SERVICE_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://")
_SERVICE_VARIABLE: Final = re.compile(r".*(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")
"""What Kubernetes tells each pod of the Services beside it, of one called mailsift among others."""
_OF_CLIENTS: Final = frozenset({"URL", "KEY"})
"""Where a service is and how to get in, as clients read it."""
_NO_TEXT: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Control characters, and bytes that are no UTF-8 (PEP 383)."""


def _default_home() -> Path:
    """Return the user's data directory; root, and who has no home, keeps data where services do."""
    with suppress(RuntimeError):  # a number without a name, as containers are run by
        if os.geteuid() != 0:
            return platformdirs.user_data_path("mailsift")
    return Path("/var/lib/mailsift")


def _absolute(path: Path) -> Path:
    """Return a path that means the same to every process; no shell reads the `~` in a service file."""
    try:
        found = path.expanduser().absolute()
    except RuntimeError:
        raise ValueError("nobody knows whose ~ that is") from None
    if _NO_TEXT.search(str(found)):  # which no file of settings and no URL can hold
        raise ValueError("expected a path in UTF-8, without line ends and other control characters")
    return found


Port = Annotated[int, BeforeValidator(_number)]
LocalPath = Annotated[Path, AfterValidator(_absolute)]
DatabaseUrl = Annotated[
    SecretStr, _scheme("postgresql+psycopg", "postgresql", "postgres"), _checked(check_database_url)
]
RedisUrl = Annotated[SecretStr, _scheme("redis", "rediss", "unix"), _checked(check_redis_url)]
CommaList: TypeAlias = Annotated[tuple[T, ...], NoDecode, BeforeValidator(_split)]
Strings = CommaList[str]
Endpoints = CommaList[Annotated[str, _checked(_endpoint)]]
Hosts = CommaList[Annotated[str, _checked(lambda host: split_hosts([host]))]]
Doors = CommaList[Door]
Mailbox = Annotated[str, _like(r"([^@\s<>,;]+@[^@\s<>,;]+)?\Z", "an address, postmaster@example.com")]
ApiHost = Annotated[str, AfterValidator(lambda host: re.sub(r"\A\[(.*:.*)\]\Z", r"\1", host))]  # of a URL
PublicUrl = Annotated[
    str,
    AfterValidator(lambda url: url.removesuffix("/")),
    _like(r"(https?://[^/?#\s]+)?\Z", "https://mail.example.com, without a path"),
]
BlobUrl = Annotated[
    str, _like(r"(file|s3|gs|az)://", "file:///folder, s3://bucket, gs://bucket or az://container")
]
Issuer = Annotated[
    str,
    _like(r"(https://[^?#\s]+|http://(localhost|127\.0\.0\.1)[^?#\s]*)?\Z", "https://login.example.com"),
]
GroupRules = CommaList[Annotated[str, _like(r"[^=]+=[^=:]+:(viewer|member|owner)\Z", "group=account:role")]]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(str.lower)]
Delays = Annotated[CommaList[Annotated[float, Field(gt=0)]], Field(min_length=1)]


class Settings(BaseSettings):
    """The settings of one process; frozen, and its repr shows no secret."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, env_ignore_empty=True, extra="forbid")

    home: LocalPath = Field(
        default_factory=_default_home,
        validate_default=True,
        description="where data is kept that has no URL of its own (default: the user's data "
        "directory; for root and users without a home: /var/lib/mailsift)",
    )
    secrets_dir: Path | None = Field(
        default=None,
        description="folder with one file for each secret setting, named like its variable",
    )
    database_url: DatabaseUrl | None = Field(
        default=None, description="PostgreSQL, postgresql+psycopg://...; unset: the embedded one"
    )
    redis_url: RedisUrl | None = Field(
        default=None, description="Redis or Valkey, redis://, rediss:// or unix://; unset: the embedded one"
    )
    blob_url: BlobUrl | None = Field(
        default=None, description="lists and results, file://, s3://, gs:// or az://; unset: HOME/blobs"
    )
    dns_servers: Endpoints = Field(
        default=(), description="resolvers address:port,address:port; unset: the system's"
    )
    dns_canaries: Strings = Field(
        default=("gmail.com", "outlook.com", "yahoo.com", "icloud.com", "gmx.net", "web.de"),
        description="well-known mail domains: a resolver that denies one of them, or knows a name "
        "that does not exist, is not trusted; a single comma: no such check",
    )
    smtp_port: Port = Field(default=25, ge=1, le=65535, description="port on which mail servers are asked")
    helo_name: Annotated[str, _checked(_greeting)] = Field(
        default_factory=socket.gethostname,  # the full one takes a resolver: `greeting`
        description="the name we greet mail servers with (default: this host's full name)",
    )
    mail_from: str = Field(default="", description="sender of a probe; empty: the null sender <>")
    source_addresses: Strings = Field(
        default=(),
        repr=False,  # a proxy's address may hold a password
        description="where to probe from: our IP addresses or socks5://host:port; unset: the default route",
    )
    source_identities: Strings = Field(
        default=(),
        repr=False,  # an address here may be a proxy's
        description="how the world sees our addresses: address=identity, default=identity, or one for "
        "all of them; machines that share one share a budget (default: the address "
        "itself)",
    )
    allow_non_public: bool = Field(
        default=False, description="dial loopback and private addresses too; for tests and the sandbox only"
    )
    overrides: LocalPath | None = Field(
        default=None, description="file with your own lists and provider rows"
    )
    ramp: bool = Field(
        default=True,
        description="a source with a clean record earns a faster rate at a provider; false: always "
        "the table's rates",
    )
    refuse_harvested: bool = Field(
        default=True,
        description="refuse deep runs of lists whose addresses at a domain look generated by a program",
    )
    block_lists: Strings = Field(
        default=("bl.spamcop.net", "psbl.surriel.com"),
        description="DNS block lists in which our addresses are looked up hourly; a listed one is not "
        "used until it is delisted; a single comma: none",
    )
    opt_outs: LocalPath | None = Field(
        default=None, description="file with domains that do not want to be asked, one per line"
    )
    contact: Mailbox = Field(
        default="",
        description="contact for owners of mail servers, shown on the page /probing; unset: "
        "postmaster@HELO_NAME",
    )
    stop_share: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="share of unknown recipients, of 200 or more, at which a list stops asking a "
        "provider; 0: never",
    )
    stop_policy: StopPolicy = Field(
        default=StopPolicy.LATER,
        description="what happens to its other addresses there: later (asked after an hour) or not_asked",
    )
    connections: Path | None = Field(
        default=None,
        description="file with the stores and databases that accounts may read lists from and write "
        "results to",
    )
    greylist_delays: Delays = Field(
        default=(300.0, 900.0, 3600.0),
        description="seconds before each retry when a server defers without naming a time",
    )
    lease_seconds: float = Field(
        default=60.0,
        gt=0,
        description="seconds without a heartbeat after which a worker's chunks and sessions are freed",
    )
    heartbeat_seconds: float = Field(default=5.0, gt=0, description="how often a worker renews its leases")
    sweep_seconds: float = Field(
        default=5.0, gt=0, description="how often to look for lost leases and wake-ups"
    )
    worker_processes: int = Field(
        default_factory=lambda: os.cpu_count() or 1,
        ge=1,
        description="processes of a worker (default: one per core)",
    )
    chunk_slots: int = Field(default=6, ge=1, description="chunks a worker process works on at a time")
    survey_slots: int = Field(
        default=3, ge=1, description="how many of them may be large chunks that nobody has looked at yet"
    )
    preflight_domains: Annotated[Strings, Field(min_length=1)] = Field(
        default=("gmail.com", "outlook.com", "yahoo.com"),
        description="domains whose mail servers are known to be up: can one of them be reached from here?",
    )
    max_age: float = Field(
        default=86_400.0,
        ge=0,
        allow_inf_nan=False,
        description="seconds for which a job may reuse a mailbox verdict; 0: always ask",
    )
    outcome_days: int = Field(
        default=730,
        ge=1,
        le=3_650,
        description="days for which outcomes, and how verdicts held, are kept; after that hard "
        "bounces are forgotten, too",
    )
    disposable_invalid: bool = Field(
        default=False, description="throw-away domains are invalid instead of risky"
    )
    key_peppers: SecretStr | None = Field(
        default=None,
        description="secrets that key the hashes of stored API keys, name:secret,name:secret; unset: "
        "one in HOME/pepper",
    )
    api_host: ApiHost = Field(default="127.0.0.1", min_length=1, description="address the API listens on")
    api_port: Port = Field(
        default=8025, ge=0, le=65535, description="port the API listens on; 0: any free one"
    )
    public_url: PublicUrl = Field(
        default="",
        description="how browsers reach the pages, https://mail.example.com; unset: taken from the request",
    )
    requests_per_minute: int = Field(
        default=6_000, ge=1, description="API requests per minute for each account"
    )
    mcp_budget: int = Field(
        default=1_000,
        ge=0,
        description="addresses a key may check over MCP per day; 0: no tools for assistants",
    )
    oidc_issuer: Issuer = Field(
        default="", description="OpenID Connect provider that people sign in with; unset: passwords only"
    )
    oidc_client_id: str = Field(default="", description="what this installation is called at the provider")
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="the secret that the provider gave this installation"
    )
    oidc_name: str = Field(default="single sign-on", description="what the provider is called on the button")
    oidc_scopes: str = Field(
        default="openid email profile",
        description="scopes to request; add offline_access or groups where the provider needs them",
    )
    oidc_algorithm: Literal["RS256", "PS256", "ES256", "EdDSA"] = Field(
        default="RS256", description="how the provider signs ID tokens; anything else is refused"
    )
    oidc_groups_claim: str = Field(
        default="groups", description="claim in which the provider lists a person's groups"
    )
    oidc_groups: GroupRules = Field(
        default=(),
        description="group=account:role, ...; roles are viewer, member and owner; unset: invitations decide",
    )
    oidc_only: Strings = Field(
        default=(),
        description="addresses that may still use a password (break glass); set: everybody else signs in "
        "with the provider",
    )
    doors: Doors = Field(
        default=(),
        description="services whose clients may use their own API here: emailable, kickbox, "
        "neverbounce, reacher, zerobounce; unset: none",
    )
    rb_key: bool = Field(
        default=False,
        description="also accept the key in X-RB-Key when a request has no Authorization",
    )
    webhook_allow_http: bool = Field(
        default=False, description="webhooks may use plain HTTP and any port; for tests only"
    )
    own_hosts: Hosts = Field(
        default=(),
        description="names and addresses of this installation; no webhook may point there, nor at PUBLIC_URL",
    )
    mail_relay: Annotated[SecretStr, _checked(parse_relay)] | None = Field(
        default=None,
        description="SMTP relay for mail about webhooks and jobs, smtp://[user:password@]host:port or "
        "smtps://...; unset: none is sent",
    )
    mail_sender: Mailbox = Field(
        default="", description="sender address of that mail; unset: mailsift@HELO_NAME"
    )
    secret_keys: SecretStr | None = Field(
        default=None,
        description="keys that seal secrets, outcomes and suppressions, name:base64 of 32 bytes, ...:"
        " first seals, all open; unset: one in HOME/secret-key",
    )
    log_level: LogLevel = Field(
        default="info", description="what servers and workers log: debug, info, warning or error"
    )
    metrics_port: Port | None = Field(
        default=None,
        ge=1,
        le=65534,
        description="port for Prometheus, on API_HOST; the worker of serve takes the next one; unset: none",
    )
    otel_endpoint: Annotated[str, _like(r"https?://[^/]", "http://host:4318")] | None = Field(
        default=None,
        repr=False,  # it may hold a password
        description="OTLP/HTTP collector for traces, http://host:4318; needs the extra otel; unset: none",
    )
    max_rows: int = Field(default=10_000_000, ge=1, description="rows a list may have")
    max_bytes: int = Field(default=250 * 1024**2, ge=1, description="bytes a list may have, unpacked")
    max_columns: int = Field(default=200, ge=1, description="columns a list may have")

    @field_validator("heartbeat_seconds")
    @classmethod
    def _beats_within_a_lease(cls, value: float, info: ValidationInfo) -> float:
        if value >= info.data.get("lease_seconds", math.inf):
            raise ValueError(f"must be less than {PREFIX}LEASE_SECONDS")
        return value

    @classmethod
    def from_env(cls, **given: object) -> Self:
        """Read what is not given from the environment, and what that does not hold from files of SECRETS_DIR.

        Raises:
            MailsiftError: `bad_settings`, naming the variables but not their values.
        """
        secrets_dir = os.environ.get(f"{PREFIX}SECRETS_DIR") or None  # noqa: TID251 - this is where it is read
        if secrets_dir and not os.path.isdir(secrets_dir):  # noqa: PTH112 - says no to a path that is too long
            raise MailsiftError("bad_settings", f"{PREFIX}SECRETS_DIR: there is no such folder.")
        if secrets_dir:
            _check_secrets(Path(secrets_dir), {PREFIX + name.upper() for name in cls.model_fields})
        try:
            return cls(_secrets_dir=secrets_dir, **given)  # type: ignore[call-arg, arg-type]  # how pydantic-settings takes it
        except ValidationError as error:
            problems = {
                f"{PREFIX}{str(item['loc'][0]).upper()}: {item['msg'].removeprefix('Value error, ')}"
                for item in error.errors()
            }
            raise MailsiftError("bad_settings", "; ".join(sorted(problems)) + ".") from None

    @classmethod
    def describe(cls) -> list[tuple[str, str, str]]:
        """List every variable with its default and one line of help, as the README shows them."""
        return [
            (
                PREFIX + name.upper(),
                _as_text(None if field.default_factory else field.default),
                field.description or "",
            )
            for name, field in cls.model_fields.items()
        ]

    @classmethod
    def mistyped(cls) -> dict[str, str]:
        """Return what is set, resembles a setting and is none, with the variable that may be meant.

        Names that resemble nothing are somebody else's.
        """
        known = {name.upper() for name in cls.model_fields}
        close = {
            name: get_close_matches(name.upper().removeprefix(PREFIX), known, 1)
            for name in _strange_variables(known)
        }
        return {name: PREFIX + meant[0] for name, meant in sorted(close.items()) if meant}

    def environment(self) -> dict[str, str]:
        """Return the variables that give another process these settings."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        values["helo_name"] = self.given_helo_name
        return {PREFIX + name.upper(): _as_text(value) for name, value in values.items() if value is not None}

    def make_home(self) -> None:
        """Make HOME, where it is missing.

        Raises:
            MailsiftError: `bad_settings` when it cannot be made or written.
        """
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            if not os.access(self.home, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            text = (
                f"{PREFIX}HOME: {self.home} can’t be written ({error.strerror}). Set it to a folder that can."
            )
            raise MailsiftError("bad_settings", text) from error

    def check_files(self) -> None:
        """See to it that the files which are named can be read: a mistake is told once, not by every process.

        Raises:
            MailsiftError: `bad_overrides`, `bad_opt_outs`.
        """
        from mailsift.pipeline.opt_outs import read_opt_outs  # noqa: PLC0415 - slow to load
        from mailsift.pipeline.providers import Providers  # noqa: PLC0415 - slow to load

        Providers.load(self.overrides)
        if self.opt_outs is not None:
            read_opt_outs(self.opt_outs)

    @property
    def given_helo_name(self) -> str:
        """HELO_NAME, "" where it is not set."""
        return self.helo_name if "helo_name" in self.model_fields_set else ""

    def greeting(self) -> str:
        """Return what we greet mail servers with: HELO_NAME, else this host's full name; may block for it."""
        return self.given_helo_name or host_name()

    @property
    def blobs(self) -> str:
        """Where blobs lie: BLOB_URL, else a folder below HOME."""
        return self.blob_url or (self.home / "blobs").as_uri()


def server_url(setting: SecretStr | None) -> str:
    """Return the address of a server, which mailsift.runtime.embedded has seen to."""
    if setting is None:
        raise AssertionError("mailsift.runtime.embedded sets the addresses")
    return setting.get_secret_value()


def _strange_variables(known: Collection[str]) -> Iterator[str]:
    """Give the names with our prefix that neither a setting, a platform nor a client has."""
    given = dict(os.environ)  # noqa: TID251 - this is where it is read
    with suppress(OSError):  # `from_env` tells what is wrong with the folder
        folder = Path(given.get(f"{PREFIX}SECRETS_DIR") or os.devnull)
        given |= {file.name: "a file" for file in folder.iterdir()}
    for name, value in given.items():
        own = name.upper().removeprefix(PREFIX)
        if not value or own == name.upper() or own in known or own in _OF_CLIENTS:
            continue
        if not _SERVICE_VARIABLE.fullmatch(own) and not _SERVICE_ADDRESS.match(value):
            yield name


def _as_text(default: object) -> str:
    """Write a default the way the environment variable would be written."""
    if default is None:
        return ""
    if isinstance(default, SecretStr):
        return default.get_secret_value()
    if isinstance(default, tuple):
        return ",".join(_as_text(item) for item in default)
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float) and default.is_integer():
        return str(int(default))
    return str(default)
