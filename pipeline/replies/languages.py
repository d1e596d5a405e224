"""How German, French, Spanish, Portuguese, Italian and Dutch servers speak of a mailbox, and of us.

Every attribute is a pattern for simplified text (classifier.simplify): lower case, no accents.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """The words of one language; every attribute but the name is a pattern.

    Attributes:
        name: for people.
        box: nouns for the mailbox or its owner.
        absent: said after the noun of one that does not exist.
        no: stands before the noun of one that does not exist.
        closed: said of a mailbox that takes no mail.
        blocked: said of a mailbox that takes no mail, or of an address of ours that is not welcome.
        full: said of one that is full.
        sender: speaks of the sender.
        your: the possessive.
        identity: speaks of logging in.
        rule: speaks of what is allowed.
        content: judges what is sent.
    """

    name: str
    box: str
    absent: str
    no: str
    closed: str
    blocked: str
    full: str
    sender: str
    your: str
    identity: str
    rule: str
    content: str


GERMAN = Language(
    "German",
    box=(
        r"(?:empf(?:ae|a)nger(?:s|in|-?adresse|-?postfach|konto)?|(?:be)?nutzer(?:s|in|name|konto)?|anwender"
        r"|teilnehmer|postfach(?:e?s)?|konto|kennung|adressat|(?:e-?)?(?:mail-?|ziel)?adresse)"
    ),
    absent=(
        r"(?:existier(?:t|en)(?: \S+){0,3}? nicht|unbekannt|ungue?ltig|gibt es(?: \S+){0,2}? nicht"
        r"|nicht (?:\w+ ){0,3}?(?:gefunden|ermittelt|bekannt|vorhanden|existent|gue?ltig|registriert"
        r"|eingerichtet|finden)|kennen wir nicht)"
    ),
    no=(
        r"(?:(?:unbekannt|ungue?ltig|nicht existierend|nicht vorhanden)e[rsn]?"
        r"|kein(?:e|en)?(?: (?:solche|gue?ltige)[rsn]?)?)"
    ),
    closed=(
        r"(?:deaktiviert|stillgelegt|geloe?scht|abgeschaltet|geschlossen|archiviert|abgelaufen|inaktiv"
        r"|nicht (?:mehr )?aktiv)"
    ),
    blocked=r"(?:gesperrt|blockiert)",
    full=r"(?:voll|uberfullt|ueberfuellt)",
    sender=r"\b(?:ab|ver)send|\bsendend|\bruckadresse|\bherkunft",
    your=r"\bihr(?:e[rsnm]?)?",
    identity=r"\banmeld|\bangemeldet|\bkennwort|\bpasswort|\beinlogg",
    rule=(
        r"\brichtlinien?\b|\bnur (?:fur|von|mit)\b|\bverboten\b|\bzugriff verweigert"
        r"|\bnicht (?:erlaubt|gestattet|zugelassen|berechtigt)\b"
    ),
    content=r"\bverdacht|\bmissbrauch|\bunerwunscht",
)
FRENCH = Language(
    "French",
    box=(
        r"(?:utilisateur|usager|destinataire|abonne|compte|boite(?: aux lettres| mail| de reception)?"
        r"|adresse(?: e-?mail| mail| electronique| de messagerie)?)"
    ),
    absent=(
        r"(?:inconnue?|inexistante?|invalide|introuvable|incorrecte?|erronee?|n ?existe (?:pas|plus)"
        r"|(?:n ?est )?(?:pas|plus|non) (?:\w+ ){0,2}?"
        r"(?:valide|connue?|reconnue?|repertoriee?|trouvee?|annuaire))"
    ),
    no=(
        r"(?:aucune?(?: telle?)?|pas d(?:e|u)?"
        r"|(?:impossible de trouver|ne (?:connaissons|trouvons) pas) (?:la|le|l|un|une|cet|cette|ce))"
    ),
    closed=r"(?:desactivee?|suspendue?|fermee?|inactive?|archivee?|supprimee?|cloturee?|resiliee?|expiree?)",
    blocked=r"bloquee?",
    full=r"(?:pleine?|saturee?)",
    sender=(
        r"\bexpedit|\bemett|\bd envoi\b|\benvoyeu|\badresse de retour|\b(?:d|l) ?origine\b|\bprovenan(?:t|ce)"
    ),
    your=r"\bvo(?:tre|s)",
    identity=r"\bmot de passe|\bidentifi(?:er|ez|cation)|\bconnecte[rz]",
    rule=(
        r"\bpolitiques? de\b|\b(?:non|pas) autorise|\binterdit|\bacces refuse"
        r"|\bseul(?:e?s?|ement)\b|\buniquement\b|\bque par\b"
    ),
    content=r"\bpourriel|\bindesirable|\babus\b|\bsuspect",
)
IBERIAN = Language(
    "Spanish or Portuguese",
    box=(
        r"(?:usuari[oa]|utilizador|destinatari[oa]|direccion(?: de correo)?|endereco(?: de e-?mail)?|casilla"
        r"|buzon(?: de correo)?|caixa (?:postal|de correio|de entrada)"
        r"|cuenta(?: de correo)?|conta(?: de e-?mail)?)"
    ),
    absent=(
        r"(?:desconocid[oa]|desconhecid[oa]|inexistente|invalid[oa]|incorrect[oa]|incorret[oa]"
        r"|n[oa]o? (?:existe|consta|se encuentra|se encontra)"
        r"|n[oa]o? (?:(?:es|esta|fue|e|foi|ha sido|pudo ser|pode ser) )?"
        r"(?:valid|encontrad|localizad|reconocid|reconhecid|registrad|cadastrad)[oa])"
    ),
    no=(
        r"(?:ningun[oa]?|nenhum[oa]?|n[oa]o? (?:existe|hay|ha|se (?:ha )?encontr(?:o|ado)|se encuentra"
        r"|foi (?:possivel )?(?:encontra|localiza)(?:do|da|r)|encontramos|conocemos|conhecemos"
        r"|se (?:pudo|puede) encontrar)"
        r"(?: a)?(?: (?:el|la|o|a|ese|esa|este|esta|un|una|um|uma|ningun|ninguna))?)"
    ),
    closed=(
        r"(?:(?:des|in)?h?abilitad|desativad|desactivad|suspens|suspendid|inativ|inactiv"
        r"|cancelad|cerrad|encerrad|eliminad|excluid|archivad|arquivad|expirad)[oa]"
    ),
    blocked=r"bloquead[oa]",
    full=r"(?:llen[oa]|chei[oa])",
    sender=(
        r"\bremit?ent|\bremetent|\bemissor|\bemisor|\bde envio\b|\borigen\b|\borigem\b|\bprovenien"
        r"|\bproceden"
    ),
    your=r"\b(?:sus?|tus?|vuestr[oa]s?|seus?|suas?|voss[oa]s?)",
    identity=r"\bcontrasena|\bsenha\b|\biniciar sesion|\blogin\b",
    rule=(
        r"\bpoliticas? (?:de|del|di|da)\b|\bn[oa]o? (?:\w+ )?(?:permit|autoriz)|\bproh?ibid"
        r"|\b(?:acceso|acesso) (?:denegado|negado)|\bsolo\b|\bsolamente\b|\bsomente\b|\bapenas\b"
    ),
    content=r"\babuso|\bsospech|\bsuspeit|\bindesead|\bindesejad",
)
ITALIAN = Language(
    "Italian",
    box=(
        r"(?:utente|destinatario|casella(?: di posta| postale| e-?mail)?"
        r"|indirizzo(?: di posta| e-?mail)?|utenza)"
    ),
    absent=(
        r"(?:sconosciut[oa]|inesistente|errat[oa]|non (?:e )?(?:piu )?(?:stat[oa] )?"
        r"(?:esiste|esistente|valid[oa]|trovat[oa]|presente|riconosciut[oa]|registrat[oa]))"
    ),
    no=(
        r"(?:nessun[oa]?|(?:non (?:esiste|ce|risulta|e stat[oa] trovat[oa])|impossibile trovare)"
        r"(?: (?:l|la|il|lo|un|una|alcun|alcuna|nessun|nessuna))?)"
    ),
    closed=r"(?:disabilitat|disattivat|sospes|chius|cessat|scadut|eliminat|inattiv|non (?:piu )?attiv)[oa]",
    blocked=r"bloccat[oa]",
    full=r"pien[oa]",
    sender=r"\bmittent|\b(?:di|d) invio\b|\bprovenien",
    your=r"\b(?:suo|sua|tu[oa]|vostr[oa])",
    identity=r"\baccedere\b|\bparola d ordine",
    rule=r"\bnon (?:autorizzat|consentit|permess|abilitat)|\bvietat|\baccesso negato|\bsolo\b|\bsoltanto\b",
    content=r"\babuso\b|\bsospett|\bindesiderat",
)
DUTCH = Language(
    "Dutch",
    box=r"(?:gebruiker|ontvanger|geadresseerde|postbus|postvak|(?:e-?)?(?:mail-?)?adres)",
    absent=(
        r"(?:onbekend|ongeldig|onjuist|bestaat(?: \S+){0,3}? niet"
        r"|niet (?:\w+ ){0,3}?(?:gevonden|bekend|geldig|herkend|aanwezig|geregistreerd|vinden))"
    ),
    no=r"(?:onbekende?|ongeldige?|niet[ -]bestaande?|geen(?: (?:geldige?|dergelijke?|zo ?n))?)",
    closed=(
        r"(?:niet (?:meer )?actief|inactief|uitgeschakeld|gedeactiveerd|opgeheven|gesloten"
        r"|afgesloten|opgeschort|verlopen|verwijderd)"
    ),
    blocked=r"geblokkeerd",
    full=r"vol",
    sender=r"\b(?:af|ver)zend|\bherkomst",
    your=r"\b(?:uw|jouw)",
    identity=r"\bwachtwoord|\baangemeld|\binlogg|\bingelogd|\baanmeld",
    rule=r"\bbeleid\b|\bniet (?:toegestaan|gemachtigd|bevoegd)\b|\btoegang geweigerd|\balleen\b",
    content=r"\bmisbruik|\bongewenst|\bverdacht",
)
LANGUAGES = (GERMAN, FRENCH, IBERIAN, ITALIAN, DUTCH)

BORROWED = r"(?:mailbox|account|alias)"
"""English nouns for the mailbox that every language borrows."""

ADDRESS = r"(?:adresse|direccion|endereco|indirizzo|adres)\b"
"""Nouns that may also be an address of ours."""

MACHINE = (
    r"(?:\w{0,12}-?(?:server|host|domain|netz|rechner)\w{0,4}|provider|serveur|hote|domaine|domein|fournisseur"
    r"|reseau|servidor|dominio|proveedor|provedor|red|rede|rete|netwerk"
    r"|(?:adresse |direccion |endereco |indirizzo )?ip)\b"
)
"""Nouns for what connects to a server."""

_HOLDING = (
    r"(?:(?:e-?)?(?:mail-?)?adres(?:se)?|\w{0,8}konto|compte|direccion|cuenta|usuario|endereco|conta|utilizador"
    r"|indirizzo|utente|casella|gebruiker|account|mailbox|identifiant)\b"
)
"""Nouns for what one has at a mail server."""

_YOUR = "(?:" + "|".join(said.your for said in LANGUAGES) + ")"

YOUR_HOST = rf"{_YOUR} {MACHINE}"
"""Speaks of our host, in any of the languages."""

YOURS = rf"{_YOUR} {_HOLDING}"
"""Speaks of an account or an address of ours: "your account does not exist"."""
