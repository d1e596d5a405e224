"""What the environment may say, and how a mistake is answered."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from mailsift.cli.operate import server_settings
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings
from tests.support.captured_logs import logs_as_before


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, _, _ in Settings.describe():
        monkeypatch.delenv(name, raising=False)


def test_an_empty_environment_gives_working_defaults() -> None:
    settings = Settings.from_env()
    assert settings.database_url is None
    assert settings.redis_url is None
    assert settings.dns_servers == ()
    assert settings.smtp_port == 25
    assert settings.mail_from == ""
    assert settings.greylist_delays == (300.0, 900.0, 3600.0)
    assert settings.allow_non_public is False
    assert settings.worker_processes >= 1
    assert settings.preflight_domains == ("gmail.com", "outlook.com", "yahoo.com")
    assert settings.max_age == 86_400.0
    assert settings.disposable_invalid is False
    assert settings.helo_name


def test_lists_are_written_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAILSIFT_DNS_SERVERS", "127.0.0.1:53, [::1]:5300")
    monkeypatch.setenv("MAILSIFT_SOURCE_ADDRESSES", "192.0.2.1,192.0.2.2")
    monkeypatch.setenv("MAILSIFT_GREYLIST_DELAYS", "1, 2.5")
    settings = Settings.from_env()
    assert settings.dns_servers == ("127.0.0.1:53", "[::1]:5300")
    assert settings.source_addresses == ("192.0.2.1", "192.0.2.2")
    assert settings.greylist_delays == (1.0, 2.5)


def test_an_empty_variable_means_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAILSIFT_DATABASE_URL", "")
    monkeypatch.setenv("MAILSIFT_SMTP_PORT", "")
    settings = Settings.from_env()
    assert settings.database_url is None
    assert settings.smtp_port == 25


def test_an_address_may_end_with_a_slash_and_a_level_have_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAILSIFT_PUBLIC_URL", "https://mail.example.com/")
    monkeypatch.setenv("MAILSIFT_LOG_LEVEL", "WARNING")
    settings = Settings.from_env()
    assert (settings.public_url, settings.log_level) == ("https://mail.example.com", "warning")


@pytest.mark.parametrize(
    ("given", "meant"), [("[::1]", "::1"), ("::1", "::1"), ("localhost", "localhost"), ("[]", "[]")]
)
def test_an_address_to_listen_on_may_be_written_as_in_a_url(given: str, meant: str) -> None:
    assert Settings.from_env(api_host=given).api_host == meant


@pytest.mark.parametrize("name", ["home", "overrides", "opt_outs"])
def test_a_path_means_the_same_to_every_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for given in ("~/mine", "mine"):
        monkeypatch.setenv(f"MAILSIFT_{name.upper()}", given)
        settings = Settings.from_env()
        assert getattr(settings, name) == tmp_path / "mine"
        assert settings.environment()[f"MAILSIFT_{name.upper()}"] == str(tmp_path / "mine")
    monkeypatch.setenv(f"MAILSIFT_{name.upper()}", "~nobody-of-that-name/mine")
    with pytest.raises(MailsiftError, match=f"MAILSIFT_{name.upper()}: nobody knows"):
        Settings.from_env()


def test_a_home_that_cannot_be_made_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Settings(home=tmp_path / "new" / "home").make_home()
    assert (tmp_path / "new" / "home").is_dir()
    with pytest.raises(MailsiftError, match=r"MAILSIFT_HOME: .*file/home can.t be written") as caught:
        Settings(home=tmp_path / "file" / "home").make_home()
    assert caught.value.code == "bad_settings"


def test_blobs_lie_below_home_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MAILSIFT_HOME", str(tmp_path / "a home"))
    assert Settings.from_env().blobs == (tmp_path / "a home" / "blobs").as_uri()
    monkeypatch.setenv("MAILSIFT_BLOB_URL", "s3://bucket/lists")
    assert Settings.from_env().blobs == "s3://bucket/lists"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAILSIFT_SMTP_PORT", "hunter2"),
        ("MAILSIFT_SMTP_PORT", "70000"),
        ("MAILSIFT_DNS_SERVERS", "hunter2"),
        ("MAILSIFT_DNS_SERVERS", "hunter2:0"),
        ("MAILSIFT_DNS_SERVERS", ":53"),
        ("MAILSIFT_DNS_SERVERS", "hunter2:53"),
        ("MAILSIFT_DNS_SERVERS", "::1:53"),
        ("MAILSIFT_GREYLIST_DELAYS", "hunter2"),
        ("MAILSIFT_GREYLIST_DELAYS", "0"),
        ("MAILSIFT_GREYLIST_DELAYS", ","),
        ("MAILSIFT_LEASE_SECONDS", "-1"),
        ("MAILSIFT_HEARTBEAT_SECONDS", "60"),  # as long as a lease
        ("MAILSIFT_ALLOW_NON_PUBLIC", "hunter2"),
        ("MAILSIFT_WORKER_PROCESSES", "0"),
        ("MAILSIFT_PREFLIGHT_DOMAINS", ","),
        ("MAILSIFT_MAX_AGE", "-1"),
        ("MAILSIFT_MAX_AGE", "inf"),
        ("MAILSIFT_DISPOSABLE_INVALID", "hunter2"),
        ("MAILSIFT_REDIS_URL", "hunter2"),
        ("MAILSIFT_BLOB_URL", "hunter2"),
        ("MAILSIFT_BLOB_URL", "memory:///hunter2"),
        ("MAILSIFT_DATABASE_URL", "mysql://user:hunter2@host/db"),
        ("MAILSIFT_DATABASE_URL", "postgresql://user:a@b:hunter2@host/db"),
        ("MAILSIFT_REDIS_URL", "redis://:hunter2/x@host:6379/0"),
        ("MAILSIFT_REDIS_URL", "redis://:1/hunter2@host:6379/0"),
        ("MAILSIFT_REDIS_URL", "redis://:hunter2#x@host"),
        ("MAILSIFT_REDIS_URL", "redis://:[hunter2@host"),
        ("MAILSIFT_REDIS_URL", "redis://host:6379/hunter2"),
        ("MAILSIFT_DATABASE_URL", "postgresql://host/db?foo=hunter2"),
        ("MAILSIFT_DATABASE_URL", "postgresql://host/db?sslmode=require&row_factory=hunter2"),
        ("MAILSIFT_REDIS_URL", "redis://host?foo=hunter2"),
        ("MAILSIFT_REDIS_URL", "redis://:123?hunter2=x@host"),
        ("MAILSIFT_REDIS_URL", "rediss://host?ssl_cert_reqs=hunter2"),
        ("MAILSIFT_REDIS_URL", "unix:///run/valkey.sock?db=hunter2"),
        ("MAILSIFT_HOME", "/var/lib/hunter2\n"),
        ("MAILSIFT_OVERRIDES", "/etc/hunter2\x1b"),
        ("MAILSIFT_HOME", "/var/lib/hunter2\udcff"),  # a byte that is no UTF-8
        ("MAILSIFT_HELO_NAME", "hünter2.example"),
        ("MAILSIFT_HELO_NAME", "hunter2 QUIT"),
        ("MAILSIFT_PUBLIC_URL", "https://host/hunter2"),
        ("MAILSIFT_PUBLIC_URL", "https://hunter2\n"),
        ("MAILSIFT_CONTACT", "hunter2"),
        ("MAILSIFT_MAIL_SENDER", "hunter2@example.com\n"),
        ("MAILSIFT_OIDC_ISSUER", "https://hunter2\n"),
        ("MAILSIFT_OIDC_ISSUER", "http://hunter2"),
        ("MAILSIFT_OTEL_ENDPOINT", "hunter2:4318"),
        ("MAILSIFT_LOG_LEVEL", "hunter2"),
    ],
)
def test_a_bad_value_is_named_by_its_variable_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(MailsiftError) as caught:
        Settings.from_env()
    assert caught.value.code == "bad_settings"
    assert name in caught.value.message
    assert "pattern" not in caught.value.message  # what is expected is said in words
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "postgresql+psycopg://postgres@/mailsift?host=%2Frun%2Fpg&port=5432"),
        ("DATABASE_URL", "postgres://me:a/b?c#d[e:f@[2001:db8::1]:5432/mailsift?sslmode=require"),
        ("DATABASE_URL", "postgresql:///mailsift"),
        ("REDIS_URL", "redis://:p%2Fw@[::1]:6379/15"),
        ("REDIS_URL", "rediss://me:a@b:c@redis.example?ssl_cert_reqs=none"),
        ("REDIS_URL", "rediss://redis.example/2?ssl_ca_certs=%2Fetc%2Fca.pem&ssl_check_hostname=false"),
        ("REDIS_URL", "unix:///run/a@b/valkey.sock?db=3"),
        ("REDIS_URL", "unix:///run/valkey.sock?username=me&password=a%26b&db=1"),
    ],
)
def test_addresses_of_servers_are_taken_as_their_clients_read_them(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"MAILSIFT_{name}", value)
    assert getattr(Settings.from_env(), name.lower()).get_secret_value() == value


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("DATABASE_URL", "postgresql://host/db?sslmode=require&sslrootcrt=x", "sslrootcrt"),
        ("REDIS_URL", "redis://host?db=3", "db"),
        ("REDIS_URL", "rediss://host?ssl_ca_certs=x&ssl_cert_req=none", "ssl_cert_req"),
    ],
)
def test_an_option_of_an_address_that_its_clients_do_not_know_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, option: str
) -> None:
    monkeypatch.setenv(f"MAILSIFT_{name}", value)
    with pytest.raises(MailsiftError, match=f"MAILSIFT_{name}: .*{option}[^a-z_]") as caught:
        Settings.from_env()
    assert caught.value.code == "bad_settings"


def test_every_mistake_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAILSIFT_SMTP_PORT", "x")
    monkeypatch.setenv("MAILSIFT_MAX_ROWS", "y")
    with pytest.raises(MailsiftError) as caught:
        Settings.from_env()
    assert {"MAILSIFT_SMTP_PORT:", "MAILSIFT_MAX_ROWS:"} <= set(caught.value.message.split())


def test_passwords_do_not_show_in_the_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAILSIFT_DATABASE_URL", "postgresql+psycopg://user:hunter2@host/db")
    monkeypatch.setenv("MAILSIFT_REDIS_URL", "redis://:hunter2@host")
    monkeypatch.setenv("MAILSIFT_SOURCE_ADDRESSES", "socks5://user:hunter2@proxy:1080")
    settings = Settings.from_env()
    assert "hunter2" not in f"{settings!r} {settings}"
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value().endswith("hunter2@host/db")


def test_settings_do_not_change() -> None:
    settings = Settings.from_env()
    with pytest.raises(ValidationError):
        settings.smtp_port = 2525


def test_every_setting_is_described_with_the_default_it_has() -> None:
    described = {name: (default, line) for name, default, line in Settings.describe()}
    assert described["MAILSIFT_SMTP_PORT"][0] == "25"
    assert described["MAILSIFT_GREYLIST_DELAYS"][0] == "300,900,3600"
    assert described["MAILSIFT_ALLOW_NON_PUBLIC"][0] == "false"
    assert described["MAILSIFT_HOME"][0] == ""
    assert all(line and "\n" not in line for _, line in described.values())
    assert {"MAILSIFT_" + field.upper() for field in Settings.model_fields} == set(described)


def test_secrets_come_from_files_and_the_environment_goes_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "MAILSIFT_DATABASE_URL").write_text("postgresql://file@host/mailsift\n")
    (tmp_path / "mailsift_redis_url").write_text("redis://file:6379\n")
    (tmp_path / "of-somebody-else").write_text("nonsense")
    monkeypatch.setenv("MAILSIFT_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("MAILSIFT_REDIS_URL", "redis://environment:6379")
    settings = Settings.from_env()
    assert settings.database_url is not None
    assert settings.redis_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://file@host/mailsift"
    assert settings.redis_url.get_secret_value() == "redis://environment:6379"


@pytest.mark.parametrize(
    "name", ["gone", "longer than a name may be" * 99, "longer/than/a/path/may/be/" * 999]
)
def test_a_folder_of_secrets_that_is_not_there_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setenv("MAILSIFT_SECRETS_DIR", str(tmp_path / name))
    with pytest.raises(MailsiftError, match="MAILSIFT_SECRETS_DIR") as refused:
        Settings.from_env()
    assert refused.value.code == "bad_settings"


@pytest.mark.parametrize(("user", "home"), [(0, "/var/lib/mailsift"), (1_000, "/somebody/data/mailsift")])
def test_data_of_root_lie_in_a_folder_of_their_own(
    user: int, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/somebody/data")
    monkeypatch.delenv("MAILSIFT_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert Settings().home == Path(home)


def test_a_home_of_a_user_that_is_no_text_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/somebody/\udcff")
    monkeypatch.delenv("MAILSIFT_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    with pytest.raises(MailsiftError, match=r"bad_settings: MAILSIFT_HOME: .*UTF-8"):
        Settings.from_env()


def test_data_of_a_user_who_is_only_a_number_lie_where_services_keep_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("MAILSIFT_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 9)  # nobody of that number
    assert Settings().home == Path("/var/lib/mailsift")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda file: file.write_bytes(b"hunter2\xff"), "is no UTF-8"),
        (lambda file: file.symlink_to("/gone/hunter2"), "No such file or directory"),
        (lambda file: file.mkdir(), "Is a directory"),  # as Docker makes where a file to mount is missing
    ],
    ids=["no text", "gone", "a folder"],
)
def test_a_secret_that_cannot_be_read_is_named_and_not_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    make(tmp_path / "mailsift_database_url")
    monkeypatch.setenv("MAILSIFT_SECRETS_DIR", str(tmp_path))
    with pytest.raises(MailsiftError, match=f"MAILSIFT_DATABASE_URL: .*{why}") as caught:
        Settings.from_env()
    assert caught.value.code == "bad_settings"
    assert "hunter2" not in str(caught.value)


def test_a_folder_of_secrets_that_is_closed_to_us_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def closed(_: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "iterdir", closed)
    monkeypatch.setenv("MAILSIFT_SECRETS_DIR", str(tmp_path))
    with pytest.raises(MailsiftError, match=r"MAILSIFT_SECRETS_DIR: .* can’t be read \(Permission denied\)"):
        Settings.from_env()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("MAILSIFT_DATABSE_URL", "MAILSIFT_DATABASE_URL"),
        ("mailsift_redis_uri", "MAILSIFT_REDIS_URL"),
        ("MAILSIFT_LOGLEVEL", "MAILSIFT_LOG_LEVEL"),
        ("MAILSIFT_PORT", "MAILSIFT_API_PORT"),
        ("MAILSIFT_WORKERS", "MAILSIFT_WORKER_PROCESSES"),
    ],
)
def test_a_name_that_is_almost_a_setting_s_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, typed: str, meant: str
) -> None:
    monkeypatch.setenv(typed, "8026")
    assert Settings.mistyped() == {typed: meant}
    monkeypatch.delenv(typed)
    (tmp_path / typed).write_text("postgresql://secret")
    monkeypatch.setenv("MAILSIFT_SECRETS_DIR", str(tmp_path))
    assert Settings.mistyped() == {typed: meant}


def test_what_serves_logs_it_without_the_value(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAILSIFT_HOME", str(tmp_path))
    monkeypatch.setenv("MAILSIFT_DATABSE_URL", "postgresql://me:s3cret@db/mine")
    hangup = signal.getsignal(signal.SIGHUP)
    try:
        with logs_as_before():
            server_settings()
    finally:
        signal.signal(signal.SIGHUP, hangup)
    (line,) = capsys.readouterr().err.splitlines()
    event = json.loads(line)
    assert (event["event"], event["level"]) == ("settings.unknown", "warning")
    assert (event["variable"], event["meant"]) == ("MAILSIFT_DATABSE_URL", "MAILSIFT_DATABASE_URL")
    assert "s3cret" not in line


def test_what_platforms_and_clients_set_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes names each Service beside it to a pod: here `mailsift`, `mailsift-api` and others."""
    for service in ("MAILSIFT", "MAILSIFT_API", "MAILSIFT_METRICS", "MAILSIFT_SMTP", "MAILSIFT_REDIS"):
        for variable, value in {
            "SERVICE_HOST": "10.0.0.11",
            "SERVICE_PORT": "8025",
            "SERVICE_PORT_HTTP": "8025",
            "PORT": "tcp://10.0.0.11:8025",
            "PORT_8025_TCP": "tcp://10.0.0.11:8025",
            "PORT_8025_TCP_PROTO": "tcp",
            "PORT_8025_TCP_PORT": "8025",
            "PORT_8025_TCP_ADDR": "10.0.0.11",
        }.items():
            monkeypatch.setenv(f"{service}_{variable}", value)
    monkeypatch.setenv("MAILSIFT_URL", "https://mail.example.com")
    monkeypatch.setenv("MAILSIFT_KEY", "svc_key_")
    monkeypatch.setenv("MAILSIFT_HOME", "/srv")
    assert Settings.mistyped() == {}
    settings = Settings.from_env()
    assert (settings.api_port, settings.smtp_port, settings.metrics_port) == (8025, 25, None)
