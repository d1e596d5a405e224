"""How servers speak of a mailbox, and of us, in other languages than English: data, a record a language.

Every attribute is a pattern for simplified text (classifier.simplify): lower case, no accents, no й or ё.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, fields, replace


def fold(text: str) -> str:
    """Return a text in lower case and without marks, the way patterns and replies are compared."""
    folded = text.casefold()
    if folded.isascii():
        return folded
    folded = unicodedata.normalize("NFKD", folded).casefold()
    return "".join(char for char in folded if not unicodedata.combining(char))


@dataclass(frozen=True, slots=True)
class Language:
    """The words of one language; every attribute but the name is a pattern.

    Attributes:
        name: for people.
        id: stands in the ids of the reply table's rules.
        box: nouns for the mailbox or its owner.
        absent: said after the noun of one that does not exist.
        no: stands before the noun of one that does not exist.
        closed: said of a mailbox that takes no mail.
        full: said of one that is full.
        sender: speaks of the sender.
        many: speaks of too many of something.
        unsure: asks whether something is so, and tells it not.
        passing: said of what will not last: of some days, of a holiday, of what is under way, of a return.
    """

    name: str
    id: str
    box: str
    absent: str
    no: str
    closed: str
    full: str
    sender: str
    many: str
    unsure: str
    passing: str


@dataclass(frozen=True, slots=True)
class ReplyLanguage(Language):
    """The words of a language with blanks between them.

    Attributes:
        blocked: said of a mailbox that takes no mail, or of an address of ours that is not welcome.
        your: the possessive.
        identity: speaks of logging in.
        rule: speaks of what is allowed.
        content: judges what is sent.
        unknown: said of what is unknown, a mailbox or anything else.
        fault: nouns for an error, a reason or a state.
    """

    blocked: str
    your: str
    identity: str
    rule: str
    content: str
    unknown: str
    fault: str


GERMAN = ReplyLanguage(
    "German",
    "german",
    box=(
        r"(?:empf(?:ae|a)nger(?:s|in|-?adresse|-?postfach|konto)?|(?:be)?nutzer(?:s|in|name"
        r"|konto)?|anwender"
        r"|teilnehmer|(?:e-?)?(?:mail-?)?(?:postfach(?:e?s)?|konto)|kennung|adressat|kunden?"
        r"|(?:e-?)?(?:mail-?|ziel)?adresse)"
    ),
    absent=(
        r"(?:existier(?:t|en)(?: \S+){0,3}? nicht|unbekannt|ungue?ltig|gibt es(?: \S+){0,2}? nicht"
        r"|nicht (?:\w+ ){0,3}?(?:gefunden|ermittelt|bekannt|vorhanden|existent|gue?ltig|registriert"
        r"|eingerichtet|finden)|kennen wir nicht"
        r"|nicht (?:mehr )?(?:im|in|auf) (?:der |unser\w* )?(?:\w+ )?"
        r"(?:verzeichnis|adressbuch|liste|datenbank))"
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
    full=r"(?:voll|uberfull(?:t|ung)|ueberfuell(?:t|ung))",
    sender=r"\b(?:ab|ver)send|\bsendend|\bruckadresse|\bherkunft",
    your=r"\bihr(?:e[rsnm]?)?",
    identity=r"\banmeld|\bangemeldet|\bkennwort|\bpasswort|\beinlogg",
    rule=(
        r"\brichtlinien?\b|\bnur (?:fur|von|mit)\b|\bverboten\b|\bzugriff verweigert"
        r"|\bnicht (?:erlaubt|gestattet|zugelassen|berechtigt)\b"
    ),
    content=r"\bverdacht|\bmissbrauch|\bunerwunscht",
    many=r"\bzu (?:viele|oft|haufig)\b",
    unknown=r"unbekannte?[nrms]?",
    fault=r"(?:\w*fehler|problem|grund|ursache|\w*zustand|\w*status)",
    unsure=r"(?<!\bsie )(?<!\bsie, )\bob (?:der|die|das|dies\w*|ein\w*|es|sie) |\bexistenz\b",
    passing=(
        r"\b(?:vorubergehend|voruebergehend|zeitwei\w+|kurzzeitig|befristet|temporar|ferien|urlaub|elternzeit"
        r"|mutterschutz|vorlaufig|vorlaeufig|(?:sommer|winter|mittags|baby|sende)?pause\b)\w*"
        r"|\bbis (?:auf|zu[mr]?|ende|anfang|mitte|nachste|kommende|\d|\w+(?:tag|woch|ber|uar)\b|marz|april"
        r"|mai|ju[nl]i|august|spater)"
        r"|\bwieder (?:ge?offnet|geoeffnet|offen|da|erreichbar|verfugbar|verfuegbar|aktiv|zuruck|in)\b"
        r"|\bnoch (?:nicht|kein)|\bsolange\b|\bspater\b|\berst (?:ab|am|im|wieder|nach|in)\b|\blauft(?! ab\b)"
        r"|\bwird (?:gerade|derzeit|neu)\b|\bwochenende|\b(?:nachste|kommende)\w* (?:woche|monat|jahr"
        r"|\w+tag\b)"
        r"|\bwahrend (?:der|des|seiner|ihrer) (?!letzten|vergangenen|zustell|pruf|uberpruf|verarbeit)"
        r"|\bin \w+ (?:stunden?|tagen?|wochen?|minuten?) (?:erneut|wieder|noch ?mal)"
        r"|\bbis (?:die|der|das|dass|wir|er)\b|\bsobald (?!sie\b)|\bmomentan\b|\bnachts\b|\binzwischen\b"
        r"|\b(?:neu auf|wieder ?auf|um)gebaut|\bdauert an\b"
    ),
)
FRENCH = ReplyLanguage(
    "French",
    "french",
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
        r"\bexpedit|\bemett|\bd envoi\b|\benvoyeu|\badresse de retour|\b(?:d|l) ?origine\b"
        r"|\bprovenan(?:t|ce)"
    ),
    your=r"\bvo(?:tre|s)",
    identity=r"\bmot de passe|\bidentifi(?:er|ez|cation)|\bconnecte[rz]",
    rule=(
        r"\bpolitiques? de\b|\b(?:non|pas) autorise|\binterdit|\bacces refuse"
        r"|\bseul(?:e?s?|ement)\b|\buniquement\b|\bque par\b"
    ),
    content=r"\bpourriel|\bindesirable|\babus\b|\bsuspect",
    many=r"\btrop (?:de|d|souvent)\b",
    unknown=r"inconnue?s?",
    fault=r"(?:erreur|raison|cause|etat|statut)",
    unsure=(
        r"\b(?:impossible|pas|ne)\b[^.;!?]{0,40}\b(?:verifi|savoir|dire|disons|determin"
        r"|control|confirm)\w* (?:pas )?(?:si|l existence)\b"
    ),
    passing=(
        r"\b(?:temporair|momentane|provisoir|vacances|conges?\b|reouv|rouvr|jusqu|bientot|week-?end)\w*"
        r"|\bpour (?:l instant|le moment)\b|\bpas encore\b|\ben (?:cours|pause)\b|\ble temps d|\btant que\b"
        r"|\bplus tard\b|\bde retour (?:le|en|dans|apres|lundi|demain)\b|\bprochaine?s?\b"
        r"|\ba nouveau (?:dispon|ouv|act)"
        r"|\b(?:pendant|durant) (?:l[ae]?|les|s[aeo]\w*) (?!verif|trait|dern|transm|transac|livr|distrib|\d)"
        r"|\b(?:en|dans l) attente\b|\ble temps que\b|\bdes que (?!vous\b)|\bla nuit\b"
        r"|\breconstruction\b"
    ),
)
IBERIAN = ReplyLanguage(
    "Spanish or Portuguese",
    "spanish",
    box=(
        r"(?:usuari[oa]?|utilizador|destinatari[oa]?|bustia|adreca|direccion(?: de correo)?"
        r"|endereco(?: de e-?mail)?|casilla"
        r"|buzon(?: de correo)?|caixa (?:postal|de correio|de entrada)"
        r"|cuenta(?: de correo)?|conta(?: de e-?mail)?)"
    ),
    absent=(
        r"(?:desconocid[oa]|desconhecid[oa]|desconegu[td]a?|no existeix|no s ha trobat"
        r"|inexist[ei]nte?|invalid[oa]|incorrect[oa]|incorret[oa]"
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
    many=r"\b(?:demasiad[ao]s|muit[ao]s|demais)\b",
    unknown=r"(?:desconocid|desconhecid)[oa]s?",
    fault=r"(?:error|erro|motivo|razon|razao|causa|estado)",
    unsure=(
        r"\b(?:no|nao|im?possi[vb]\w*|imposible)\b[^.;!?]{0,40}\b(?:verific|comprob|determin"
        r"|sab[ei]|confirm|dec?i[rm]|diz)\w* s[ei]\b|\bexist[ei]ncia de\w*\b"
    ),
    passing=(
        r"\b(?:temporal|temporari|provisional|momentane|vacacion|vacances|reabr|reabert|reapert|mientras"
        r"|enquanto)\w*|\bferias\b|\bhasta\b|\bfins (?:al?|el)\b|\bpor (?:ahora|agora|el momento)\b"
        r"|\bde momento\b"
        r"|\bate (?:[oa]|ao|dia|\d|novo|nova|amanha|segunda|terca|quarta|quinta|sexta|sabado|domingo"
        r"|janeiro|fevereiro|marco|abril|maio|ju[nl]ho|agosto|setembro|outubro|novembro|dezembro)\b"
        r"|\b(?:aun|todavia|encara) no\b|\bno (?:\S+ ){1,3}?(?:aun|todavia|encara)\b|\bainda nao\b"
        r"|\bnao (?:\S+ ){1,3}?ainda\b"
        r"|\bregres\w+|\bvolvera\b|\bvuelve (?:el|en|a finales)\b|\bretorn[oa] (?:em|n[oa]|dia|el|en)\b"
        r"|\bvolta (?:em|dia|n[oa])\b|\bvoltara\b|\be[nm] (?:curso|proceso|processo|andamento)\b"
        r"|\bm[a]i?s tarde\b|\bproxim[oa]s? (?:seman|mes|ano|dia|lunes)|\b(?:seman|mes"
        r"|lunes)\w* (?:que viene|proxim)"
        r"|\bfi[nm] de semana\b|\b(?:de|em) licen[cs]i?a\b|\blicenca (?:de|medica|maternidade)"
        r"|\bbaja (?:medica|maternal|laboral)"
        r"|\b(?:disponib|abi?ert|activ|ativ)\w+ (?:de nuevo|nuevamente|novamente)\b"
        r"|\bdurante (?:el|l?[ao]s?|su|sua|seu) (?!ultim|verif|proces|entrega|transm|envi|\d)"
        r"|\be[mn] espera\b|\baguarda(?:ndo)? (?:pag|aprov|renov)|\ben cuanto (?!usted|tenga)"
        r"|\bassim que (?!voc)"
    ),
)
ITALIAN = ReplyLanguage(
    "Italian",
    "italian",
    box=(
        r"(?:utente|destinatario|casella(?: di posta| postale| e-?mail)?"
        r"|indirizzo(?: di posta| e-?mail)?|utenza)"
    ),
    absent=(
        r"(?:sconosciut[oa]|inesistente|errat[oa]|non (?:e )?(?:piu )?(?:stat[oa] )?"
        r"(?:esiste|esistente|valid[oa]|trovat[oa]|presente|riconosciut[oa]|registrat[oa]))"
    ),
    no=(
        r"(?:nessun[oa]?|(?:non (?:esiste|ce|risulta|e stat[oa] trovat[oa]|e (?:stato )?possibile trovare)"
        r"|impossibile trovare)"
        r"(?: (?:l|la|il|lo|un|una|alcun|alcuna|nessun|nessuna))?)"
    ),
    closed=(
        r"(?:disabilitat|disattivat|sospes|chius|cessat|scadut|eliminat|rimoss|inattiv"
        r"|non (?:piu )?attiv)[oa]"
    ),
    blocked=r"bloccat[oa]",
    full=r"pien[oa]",
    sender=r"\bmittent|\b(?:di|d) invio\b|\bprovenien",
    your=r"\b(?:suo|sua|tu[oa]|vostr[oa])",
    identity=r"\baccedere\b|\bparola d ordine",
    rule=r"\bnon (?:autorizzat|consentit|permess|abilitat)|\bvietat|\baccesso negato|\bsolo\b|\bsoltanto\b",
    content=r"\babuso\b|\bsospett|\bindesiderat",
    many=r"\btropp[eio]\b",
    unknown=r"sconosciut[oaie]",
    fault=r"(?:errore|motivo|causa|stato)",
    unsure=(
        r"\b(?:non|impossibile)\b[^.;!?]{0,40}\b(?:verific|controll|determin|sap|conferm"
        r"|accert|stabil|dic)\w* se\b|\bl esistenza\b"
    ),
    passing=(
        r"\b(?:temporane|momentane|provvisori|vacanz|riapr|riapert|rientr|finche)\w*|\bferie\b|\bfino a"
        r"|\bper (?:ora|il momento)\b|\bancora non\b|\bnon (?:\S+ ){1,4}?ancora\b|\bin (?:corso|attesa)\b"
        r"|\bpiu tardi\b|\britorn[oa] (?:il|in|dal|previsto)\b|\btornera\b|\bprossim[oa]\b|\bfine settimana\b"
        r"|\bdi nuovo (?:dispon|attiv|apert)|\bperiodo (?:di|estiv|invernal)|\bin (?:aspettativa|maternita"
        r"|congedo)\b|\bdurante (?:il|la|le|lo|l|i) (?!ultim|verif|consegn|trasm|invi|\d)"
        r"|\bal momento\b(?! (?:del|dell|della|di)\b)|\bappena (?:il|la|l|sara)\b|\bdi notte\b|\bricostru"
        r"|\bin fase di\b"
    ),
)
DUTCH = ReplyLanguage(
    "Dutch",
    "dutch",
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
    full=r"(?:zit |is )?vol",
    sender=r"\b(?:af|ver)zend|\bherkomst",
    your=r"\b(?:uw|jouw)",
    identity=r"\bwachtwoord|\baangemeld|\binlogg|\bingelogd|\baanmeld",
    rule=r"\bbeleid\b|\bniet (?:toegestaan|gemachtigd|bevoegd)\b|\btoegang geweigerd|\balleen\b",
    content=r"\bmisbruik|\bongewenst|\bverdacht",
    many=r"\bte (?:veel|vaak)\b",
    unknown=r"onbekenden?",
    fault=r"(?:\w*fout|reden|oorzaak|\w*status)",
    unsure=(
        r"\b(?:niet|onmogelijk|kon|kan)\b[^.;!?]{0,40}\b(?:controle|nagaan|vaststel|bepal"
        r"|weten|verifi)\w*,? of\b"
    ),
    passing=(
        r"\b(?:tijdelijk|vakantie|voorlopig|heropen|zolang|weekend)\w*|\b(?:met|op) (?:\w+)?verlof\b"
        r"|\bnog (?:niet|geen)\b"
        r"|\btot (?:en met|nader|volgend|de|het|zijn|haar|\d|\w+dag\b|\w+ari\b|\w+ber\b|maart|april|mei"
        r"|ju[nl]i|augustus)"
        r"|\bweer (?:open|actief|bereikbaar|beschikbaar|terug)|\bterug (?:op|in|van|vanaf)\b|\bbezig\b"
        r"|\blater\b"
        r"|\bwordt (?:verhuisd|gemigreerd|verplaatst|overgezet)|\bvolgende? (?:week|maand|jaar|\w+dag\b)"
        r"|\b(?:tijdens|gedurende) (?:de|het|zijn|haar) (?!laatste|afgelopen|verif|aflever|contro|bezorg|\d)"
        r"|\b(?:totdat|zodra (?!u\b))|\bin afwachting\b|\bwacht op\b|\bs nachts\b|\bherbouw"
    ),
)
POLISH = ReplyLanguage(
    "Polish",
    "polish",
    box=(
        r"(?:uzytkownik\w*|odbiorc\w+|adresat\w*|skrzynk\w+|kont[oa]|adres\w{0,3}(?: e-?mail| odbiorcy"
        r"| pocztow\w+)?)"
    ),
    absent=(
        r"(?:nie (?:istnieje|znalezion\w+|odnalezion\w+|figuruje|wystepuje"
        r"|(?:jest|zostal\w*|byl\w*|moze byc) (?:odnalezion|znalezion|znan|zarejestrowan|prawidlow"
        r"|poprawn)\w*)"
        r"|nieznan\w+|nieprawidlow\w+|niepoprawn\w+|nieistniejac\w+|bledn\w+)"
    ),
    no=(
        r"(?:nie (?:ma|istnieje|znaleziono|odnaleziono|znamy|mozna (?:znalezc|odnalezc))"
        r"(?: (?:takiego|takiej|zadnego|tego|taki|takie|podanego|wprowadzonego))?"
        r"|nieznan\w+|nieprawidlow\w+|nieistniejac\w+|niepoprawn\w+|bledn\w+|brak(?: takiego| takiej)?)"
    ),
    closed=r"(?:zawieszon\w+|wylaczon\w+|nieaktywn\w+|dezaktywowan\w+|zamknie\w+|usunie\w+|wygasl\w+)",
    blocked=r"zablokowan\w+",
    full=r"(?:peln\w+|przepelni(?:on|eni)\w+|zapelnion\w+)",
    sender=r"\bnadawc\w+|\bwysylajac\w+",
    your=r"\b(?:twoj\w{0,4}|twoi\w*|wasz\w*|panstwa)",
    identity=r"\blogowan\w+|\bzaloguj|\bhasl\w+|\buwierzyteln",
    rule=r"\bpolityk\w+|\bzabronion\w+|\bodmow\w+|\btylko\b|\bniedozwolon\w+|\bdozwolon\w+",
    content=r"\bniechcian\w+|\bpodejrzan\w+",
    many=r"\bzbyt (?:wiel[ue]|duz\w|czest\w)\b|\bza duzo\b",
    unknown=r"(?:nieznan(?:y|a|e|ych|ym|ego|ej)|nieznajom\w+)",
    fault=r"(?:blad|bledu|przyczyn\w*|powod\w*|stan\w*|status\w*)",
    unsure=r"(?<!\bsprawdz )(?<!\bsprawdz, )(?<!\bsie )(?<!\bsie, )\bczy\b",
    passing=(
        r"\b(?:tymczasow|chwilow|urlop|wakacj|wznow|powrot|powroc|weekend)\w*|\bferi(?:i|ach|e zimowe)\b"
        r"|\bdo (?:odwolania|konca|czasu|dnia|\d|poniedzialku|wtorku|srody|czwartku|piatku|soboty|niedzieli"
        r"|stycznia|lutego|marca|kwietnia|maja|czerwca|lipca|sierpnia|wrzesnia|pazdziernika|listopada"
        r"|grudnia)|\bna (?:czas|razie)\b|\bpoki co\b|\bdopoki\b|\bjeszcze nie|\bnie (?:\S+ ){1,3}?jeszcze\b"
        r"|\btrwa(?:ja)?\b|\bw (?:toku|trakcie)\b|\bwroci\b|\bponownie (?:otw|dost|aktyw)|\bpozniej\b"
        r"|\bpodczas (?!weryf|dostar|doreczan|spraw|przetw)"
        r"|\b(?:dopiero|gdy tylko)\b|\boczek(?:uje|iwani)\w* (?!usuni)|\bw nocy\b|\b(?:prze|od)budow"
    ),
)
CZECH = ReplyLanguage(
    "Czech or Slovak",
    "czech",
    box=r"(?:uzivatel\w*|pouzivatel\w*|prijemc\w*|adresat\w*|adres[aeyu]|schrank\w*|ucet|uct\w{0,3}|konto)",
    absent=(
        r"(?:ne(?:ni|bol[aio]?|byl[aio]?|mohl\w*|lze|da sa)(?: \w+)? (?:nalezen\w*|najden\w*|znam\w*"
        r"|platn\w+|registrovan\w*)"
        r"|neexistuj\w*|nenalezen\w*|nenajden\w*|neznam\w+|neplatn\w+|(?:zde|tu|nas"
        r"|serveru?i?) (?:neni|nie je)|nie je (?:znam"
        r"|platn)\w*)"
    ),
    no=r"(?:neznam\w+|neexistujic\w+|neplatn\w+)",
    closed=r"(?:zrusen\w*|deaktivovan\w*|pozastaven\w*|neaktivn\w+|uzavren\w*|smazan\w*|zmazan\w*|vypnut\w*)",
    blocked=r"za?blokovan\w*",
    full=r"(?:pln[aeyi]|preplnen\w*|zaplnen\w*)",
    sender=r"\bodesilatel\w*|\bodosielatel\w*",
    your=r"\bvas(?:e|eho|emu|im|i|a|ho|ej)?",
    identity=r"\bprihlas\w+|\bhesl\w+|\boveren\w+",
    rule=r"\bpolitik\w+|\bzakazan\w+|\bodepren\w*|\bzamitnut\w*|\bpouze\b|\bnepovolen\w+|\bpovolen\w*",
    content=r"\bnevyzadan\w+|\bpodezrel\w+",
    many=r"\bprilis (?:mnoho|vela|casto)\b",
    unknown=r"neznam(?:y|a|e|ych|ym|eho|ej)",
    fault=r"(?:chyb\w|pricin\w|duvod\w?|dovod\w?|stav\w?)",
    unsure=r"(?<!te )(?<!te, )\b(?:zda|zdali|jestli)\b",
    passing=(
        r"\b(?:docasn|prechodn|dovolen|prazdnin|prozatim|zatim|zatial|vikend|navrat)\w*|\bpo dobu\b"
        r"|\bdokud\b|\bprobiha"
        r"|\bdo (?:odvolani|konce|\d|pondel[ik]|uter|stred|ctvrtk|patk|sobot|nedel|ledna|unora|brezna|dubna"
        r"|kvetna|cervna|cervence|srpna|zari|rijna|listopadu|prosince)"
        r"|\b(?:jeste|dosud|doposud) n\w+|\beste (?:nie|neex|neak|nebo)|\b(?:opet|znovu) (?:otev|dost"
        r"|aktiv)|\b(?:pozdeji|neskor)\b"
        r"|\bpristi (?:tyden|mesic|rok)|\bbehem (?!overo|doruc|kontrol|posledn|\d)"
        r"|\baz (?:po|do|od|bude|se)\b|\bceka(?:ni)? na\b|\bv noci\b|\bse (?:\w+ )?obnovuje\b|\b(?:prestav"
        r"|rekonstru)\w+"
    ),
)
SCANDINAVIAN = ReplyLanguage(
    "Swedish, Danish or Norwegian",
    "swedish",
    box=(
        r"(?:anvandar\w*|bruger\w*|bruker\w*|mottagar\w*|modtager\w*|mottaker\w*"
        r"|(?:e-?post)?adress\w*|(?:e-?post|mail)?konto\w*|(?:brev|post)lada\w*|postkass\w*|inkorg\w*"
        r"|innboks\w*)"
    ),
    absent=(
        r"(?:(?:finns|finnes|findes|existerar|eksisterer|hittades|hittas) (?:\w+ )?(?:inte|ej|ikke)"
        r"|(?:ar|er) (?:inte|ej|ikke) (?:giltig|gyldig|kand|kendt|kjent|registr)\w*|okan[dt]\w*|ogiltig\w*"
        r"|saknas|(?:kan|kunde|blev|ble) (?:inte|ej|ikke) (?:hittas|finnes|findes|fundet|funnet)"
        r"|ikke (?:fundet|funnet)|ukendt\w*|ukjent\w*|ugyldig\w*)"
    ),
    no=(
        r"(?:(?:fan[dt]t?|hittade?r?|finner|finder) (?:inte|ej|ikke)|okan[dt]a?|ogiltig\w*"
        r"|felaktig\w*|ukendt\w*|ukjent\w*|ugyldig\w*|ingen(?: \w+)?)"
    ),
    closed=(
        r"(?:avstang\w+|inaktiv\w*|avaktivera\w+|deaktiver\w+|stang[dt]\w*|uppsag[dt]\w*|avsluta\w+"
        r"|lukket|nedlagt"
        r"|(?:inte|ej|ikke) (?:langre )?aktiv\w*)"
    ),
    blocked=r"(?:sparra\w+|sperret|blockera\w+|blokeret|blokkert)",
    full=r"(?:full|fullt|fulle|fuld[te]?|fyldt|overfull|overfyldt|overfuldt?)",
    sender=r"\bavsandar\w*|\bafsender\w*|\bavsender\w*",
    your=r"\b(?:din|ditt|dina|deres|jeres)",
    identity=r"\blogga in\b|\blosenord|\bautentiser|\binloggning",
    rule=r"\btillat\w*|\btilladt\b|\bnekad\b|\bnaegtet|\bnektet|\bendast\b|\bkun\b|\bforbjud\w*",
    content=r"\bskrappost|\bsoppelpost|\bmisstankt",
    many=r"\bfor (?:manga|mange|mycket|meget|mye|ofta|ofte)\b",
    unknown=r"(?:okant|okanda?|ukendte?|ukjente?)",
    fault=r"(?:fel|feil|fejl|orsak|arsak|arsag|status|tilstand)",
    unsure=(
        r"\b(?:inte|ikke|ej)\b[^.;!?]{0,40}\b(?:kontroll|sjekk|tjekk|verifi|avgor|fastsla"
        r"|undersog|veta|vite|vide)\w*(?: \w+)?,? om\b"
    ),
    passing=(
        r"\b(?:tillfallig|midlertidig|temporar|ferie|foraldraledig|sommarledig|permisjon|forelopig|indtil"
        r"|inntil)\w*|\b(?:pa|under) (?:\w+)?(?:semester|lov|barsel)\w*"
        r"|\btills?\b(?= (?:vidare|den \d|dess|nasta|slutet|\d|\w+dag\b|\w+ari\b|mars|april|maj|ju[nl]i"
        r"|augusti|\w+ber\b))|\btills\b"
        r"|\b(?:annu|endnu|enna) (?:inte|ej|ikke)\b|\b(?:inte|ej|ikke) (?:\S+ ){0,2}?(?:annu|an|enda|enna"
        r"|endnu)\b"
        r"|\bpagar\b|\bpa gang\b|\b(?:genabn|gjenapn|ateroppn)\w*|\boppnas\b|\bigen (?:den|i|pa|fra|fran"
        r"|om)\b|\b(?:tillbaka|tilbage|tilbake) (?:den|i|pa|efter|etter|fra|fran)\b|\bsen(?:are|ere)\b"
        r"|\bsa lange\b|\bmedan\b|\b(?:nasta|neste|naeste) (?:vecka|uke|uge|man)|\bhelgen\b"
        r"|\bsa (?:snart|lenge)\b|\bmens\b|\b(?:om natten|nattetid|pa natten)\b"
        r"|\b(?:bygg?e?s om|ombyg\w+|genopbyg\w+|gjenoppbyg\w+|ateruppbyg\w+)"
    ),
)
TURKISH = ReplyLanguage(
    "Turkish",
    "turkish",
    box=(
        r"(?:kullanici\w*|alici\w*|adres\w{0,3}|posta kutu\w*|gelen kutu\w*|e-?posta(?: adres\w{0,3})?"
        r"|hesa[pb]\w{0,2})"
    ),
    absent=(
        r"(?:bulunam\w+|bulunmuyor\w*|bulunmamakta\w*|(?:mevcut|tanimli|kayitli"
        r"|gecerli) degil\w*|yok\w{0,4}"
        r"|gecersiz\w*|bilinmiyor"
        r"|hatali\w*)"
    ),
    no=r"(?:bilinmeyen|gecersiz|olmayan|hatali)",
    closed=(
        r"(?:devre disi\w*|pasif\w*|kapatil\w+|kapali\w*|askiya alin\w*|dondurul\w+|silin\w+"
        r"|(?:etkin|aktif) degil\w*)"
    ),
    blocked=r"(?:engellen\w+|bloke\w*|kilit\w+)",
    full=r"(?:dolu\w*|dolmus\w*|doldu)",
    sender=r"\bgonderen\w*|\bgonderici\w*|\b(?!edin|deney|uzgun|bak|gonder|ulas|yaz|ara)\w+[iu]n[iu]z\w*",
    your=r"\bsizin",
    identity=r"\boturum ac|\bsifre|\bparola|\bkimlik dogrula",
    rule=(
        r"\bpolitika\w*|\byetki\w*|\bizin\b|\bizni\w*|\byasak\w*|\berisim\b|\byalniz\w*|\bsadece\b"
        r"|\breddedil\w+"
    ),
    content=r"\bistenmeyen|\bsupheli",
    many=r"\b(?:cok|asiri) (?:fazla|sayida|sik)\b",
    unknown=r"bilinmeyen",
    fault=r"(?:hata\w*|neden\w*|durum\w*)",
    unsure=r"\bolup olmad\w+(?! kontrol ed)|\bvar mi\b",
    passing=(
        r"\b(?:gecici|tatil|simdilik|henuz|suresince|donecek|donus)\w*|\bizin(?:de|li)\b|\bkadar\b"
        r"|\bdevam ed\w+|\bsurmekte"
        r"|\b(?:yeniden|tekrar) (?:acil|aktif|etkin|hizmet)|\bdaha sonra\b|\bgelecek (?:hafta|ay|yil)"
        r"|\bhafta sonu"
        r"|\byeniden (?:kur|yap|ol)\w+|\bbekl(?:iyor|emede|eniyor|enmekte)\w*|\b(?:gece|geceleri)\b"
        r"|(?<!ay )(?<!yil )\bboyunca\b|\besitle"
    ),
)
RUSSIAN = ReplyLanguage(
    "Russian or Ukrainian",
    "russian",
    box=(
        r"(?:пользовател\w*|користувач\w*|получател\w*|отримувач\w*|одержувач\w*|адресат\w*|абонент\w*"
        r"|ящик\w*|скриньк\w*|аккаунт\w*|учетн\w+ запис\w+|обликов\w+ запис\w+|адрес\w{0,3})"
    ),
    absent=(
        r"(?:не (?:был\w* )?(?:наиден\w*|найден\w*|знаиден\w*|существу\w+|існує|існуе"
        r"|зарегистрирован\w*|обнаружен\w*|известен)"
        r"|неизвест\w+|невідом\w+|отсутству\w+|(?:нет|нема[еє])(?= ?(?:$|[.,;!)]|(?:на|в|у нас)\b))"
        r"|недеиствител\w+|неверн\w+|некорректн\w+|невірн\w+)"
    ),
    no=(
        r"(?:(?:нет|нема|не (?:існує|існуе|существует|наиден\w*)|немає|немае)(?: так\w+| указанн\w+)?"
        r"(?: почтов\w+)?"
        r"|(?:неизвестн|несуществующ|неверн|недеиствительн|некорректн)\w+(?: почтов\w+)?)"
    ),
    closed=(
        r"(?:отключ\w+|деактивирован\w*|неактив\w+|не актив\w+|закрыт\w*|удален\w*|приостановлен\w*"
        r"|вимкнен\w*"
        r"|видален\w*)"
    ),
    blocked=r"(?:заблокирован\w*|заблокован\w*)",
    full=r"(?:переполнен\w*|переповнен\w*|заполнен\w*|полон|полна)",
    sender=r"\bотправител\w*|\bвідправник\w*",
    your=r"\b(?:ваш\w{0,3}|тво\w{1,3})",
    identity=r"\bавториз\w+|\bпарол\w+|\bаутентифик\w+",
    rule=r"\bполитик\w+|\bзапрещ\w+|\bотказан\w*|\bтолько\b|\bразреш\w+|\bзаборон\w+",
    content=r"\bспам\w*|\bвирус\w*|\bподозр\w+|\bрассыл\w+",
    many=r"\bслишком (?:мног\w+|част\w+)|\b(?:за|на)д?то багато\b|\bзабагато\b",
    unknown=r"(?:неизвестн(?:ыи|ая|ое|ых|ым|ои|ого)|невідом(?:ии|а|е|их|им|ого|оі)|незнаком\w+)",
    fault=r"(?:ошибк\w*|причин\w*|помилк\w*|состояни\w+|статус\w*|стан\w?)",
    unsure=(
        r"\b(?:существует|есть|наиден|известен|активен|зарегистрирован) ли\b|\bчи існу\w+"
        r"|\bсуществовани[ея]\b"
    ),
    passing=(
        r"\b(?:временн|тимчасов|отпуск|відпуст|каникул|канікул|декрет|возобнов|віднов)\w*|\b(?:пока|поки|ще"
        r"|снова|знову)\b"
        r"|\bдо (?:\d|конца|кінця|дальне|подальш|следующ|наступн|особ|возвращ|поверн|понед|вторн|вівт|сред"
        r"|серед|четвер"
        r"|п ?ятниц|суббот|субот|воскрес|неділ|январ|феврал|март|апрел|ма[яи]\b|июн|июл|август"
        r"|сентябр|октябр"
        r"|ноябр|декабр|січн|лют|берез|квітн|травн|червн|липн|серпн|вересн|жовтн|листопад|грудн)"
        r"|\bна (?:время|период|період|час)\b|\b(?:во время|під час) (?!проверк|перевірк|доставк)"
        r"|\bеще не|\bне (?:\S+ ){1,3}?еще\b|\bверн(?:ется|утся|усь)\b|\b(?:откроется|відкриється)\b"
        r"|\b(?:идет|триває)\b"
        r"|\b(?:ведется|проводится|в процессе)\b|\b(?:позже|позднее|пізніше)\b|\b(?:выходн|вихідн)\w+"
        r"|\b(?:следующ|наступн)\w+ (?:недел|тижн|месяц|місяц|год|понед)"
        r"|\bдо (?:оплат|сплат|окончан|закінч|заверш|перв|перш|начал|початк|полн|повн|выясн|утра|ранку)"
        r"|\b(?:доки|ночью|вночі|ожидает (?!удал)|ждет|очікує (?!видал))\b|\b(?:перестро|перебудов|перезагру"
        r"|перезаванта)\w+"
    ),
)
HUNGARIAN = ReplyLanguage(
    "Hungarian",
    "hungarian",
    box=r"(?:felhasznalo\w*|cimzett\w*|postafiok\w*|postalada\w*|fiok\w{0,4}|(?:e-?mail ?)?cim\w{0,3})",
    absent=r"(?:ismeretlen\w*|nem (?:\w+ )?(?:letez\w+|talalhato|ismert|ervenyes)"
    r"|nincs(?: \w+)?|ervenytelen\w*)",
    no=r"(?:ismeretlen|nem letezo|ervenytelen|nincs ilyen)",
    closed=r"(?:inaktiv\w*|letiltv\w*|megszun\w*|torolv\w*|lezar\w*|felfuggeszt\w*|nem aktiv\w*)",
    blocked=r"(?:zarolv\w*|blokkol\w*)",
    full=r"(?:megtelt|tele van|betelt|tulcsordul\w*)",
    sender=r"\bfelado\w*|\bkuldo\w*",
    your=r"\b(?:az on|ont)",
    identity=r"\bbejelentkez\w*|\bjelszo\w*|\bhitelesit\w*",
    rule=r"\bszabaly\w*|\btilos\b|\bcsak\b|\bengedelyez\w*",
    content=r"\bkeretlen|\bgyanus",
    many=r"\btul (?:sok|gyakran)\b",
    unknown=r"ismeretlen(?:ek\w*)?",
    fault=r"(?:hiba|ok\b|allapot)",
    unsure=r"\bhogy\b[^.;!?]{0,60}\w-e\b",
    passing=(
        r"\b(?:atmeneti|ideiglenes|szabadsag|szunet|nyaral|egyelore|visszater|visszajon|folyamatban"
        r"|hetveg)\w*"
        r"|\bmeg n(?:em|incs)|\bidejere\b|\bideje alatt\b|\bamig\b|\bkesobb\b|\bujra (?:nyit|elerh|akt)"
        r"|\bjovo (?:het|honap)"
        r"|\b(?:visszavonas|hetfo|kedd|szerda|csutortok|pentek|szombat|vasarnap|vege|\d+[.-]?|\w+(?:uar"
        r"|ber))ig\b"
        r"|\bmig (?:a|az|nem|be|ki|vissza)\b|\w+(?:epit|allit|tolt|frissit)(?:es|oz|ozes) alatt\b|\b(?:ujraep"
        r"|ujjaep)\w+|\bejszaka|\bvar(?:akozik)? (?:a|az)\b"
    ),
)
ROMANIAN = ReplyLanguage(
    "Romanian",
    "romanian",
    box=r"(?:utilizator\w*|destinatar\w*|cutia(?: postala)?|casuta(?: postala)?|cont(?:ul)?|adresa\w*)",
    absent=r"(?:nu (?:\w+ ){0,2}(?:exista|gasit\w*|valid\w*|cunoscut\w*|inregistrat\w*)"
    r"|inexistent\w*|necunoscut\w*|invalid\w*)",
    no=r"(?:nu exista(?: acest)?|niciun|nicio)",
    closed=r"(?:dezactivat\w*|inactiv\w*|suspendat\w*|inchis\w*|sters\w*|nu (?:\w+ )?activ\w*)",
    blocked=r"blocat\w*",
    full=r"(?:plin\w?|depasit\w*)",
    sender=r"\bexpeditor\w*",
    your=r"\b(?:dumneavoastra|dvs|ta|tau)",
    identity=r"\bautentific\w*|\bparol\w*",
    rule=r"\bpolitic\w*|\binterzis\w*|\bdoar\b|\bpermis\w*",
    content=r"\bsuspect\w*",
    many=r"\bprea (?:mult\w+|des)\b",
    unknown=r"necunoscut\w*",
    fault=r"(?:eroare\w*|motiv\w*|cauza|stare\w*)",
    unsure=r"\bnu\b[^.;!?]{0,40}\b(?:verific|determin|sti|spune|confirm)\w* daca\b",
    passing=(
        r"\b(?:temporar|provizori|concedi|redeschi|sarbator)\w*|\bvacant(?:a|ei|elor)\b|\bpana (?:la|cand"
        r"|pe|in|\d|\w+i\b)"
        r"|\bdeocamdata\b|\binca n|\bnu (?:\S+ ){1,3}?inca\b|\bpe (?:perioada|durata)\b|\bcat timp\b"
        r"|\brevin[eo]?\b"
        r"|\bse intoarce\b|\bin curs\b|\bmai tarziu\b|\bviitoare\b|\bin timpul (?!verif|livr|trimit)"
        r"|\bin asteptare|\basteapta\b|\bimediat ce (?!dvs)|\bnoaptea\b|\breconstru\w+"
    ),
)
BULGARIAN = ReplyLanguage(
    "Bulgarian",
    "bulgarian",
    box=r"(?:потребител\w*|получател\w*|(?:пощенск\w+ )?кутия\w*|акаунт\w*|адрес\w{0,3}|абонат\w*)",
    absent=r"(?:не (?:е )?(?:съществува\w*|намерен\w*|валид\w*|известен|регистриран\w*)"
    r"|неизвест\w+|несъществува\w*|няма)",
    no=r"(?:няма такъв|няма такава|няма|несъществува\w*|непознат\w*|неизвест\w*)",
    closed=r"(?:деактивиран\w*|неактивн?\w*|закрит\w*|изтрит\w*|спрян\w*|не е активн?\w*)",
    blocked=r"блокиран\w*",
    full=r"(?:пълна|пълен|препълнен\w*)",
    sender=r"\bподател\w*|\bизпращач\w*",
    your=r"\b(?:ваш\w{0,3}|вашия\w*)",
    identity=r"\bпарол\w*|\bудостовер\w*",
    rule=r"\bзабранен\w*|\bсамо\b|\bразрешен\w*",
    content=r"\bспам\w*",
    many=r"\b(?:твърде|прекалено) (?:много|често)\b",
    unknown=r"(?:неизвестн\w+|неизвестен|непознат\w*)",
    fault=r"(?:грешк\w+|причин\w+|състояни\w+)",
    unsure=r"\bдали\b",
    passing=(
        r"\b(?:временн?|отпуск|ваканц|засега|докато)\w*|\bдо (?:\d|края|второ|понеделник|вторник|сряда"
        r"|четвъртък|петък)"
        r"|\b(?:все )?още не|\bне (?:\S+ ){1,3}?още\b|\bпо време на (?!проверк|достав)|\bотново (?:отвор"
        r"|достъп|актив)|\bв ход\b|\bпо-късно\b"
        r"|\bдо (?:плащан|заплащ|приключ|заверш|първ|начал)|\b(?:изчаква|очаква|през нощта)\b"
    ),
)
FINNISH = ReplyLanguage(
    "Finnish",
    "finnish",
    box=r"(?:kayttaja\w*|vastaanottaja\w*|(?:sahko)?postilaatik\w*|tili\w{0,3}|(?:sahkoposti)?osoite\w*|laatikko)",
    absent=(
        r"(?:tuntematon\w*|ei (?:\w+ )?(?:loydy|loytynyt|ole(?: olemassa)?(?= ?(?:$|[.,;])"
        r"| olemassa)|tunneta|ole voimassa)|virheellinen)"
    ),
    no=r"(?:tuntematon|ei ole|virheellinen)",
    closed=r"(?:suljettu\w*|poistettu\w*|ei ole aktiivinen|lakkautettu\w*|passiivinen)",
    blocked=r"(?:estetty|lukittu)",
    full=r"(?:taynna|tayttynyt)",
    sender=r"\blahettaja\w*",
    your=r"\b(?:sinun|teidan)",
    identity=r"\bkirjaudu\w*|\bsalasana\w*",
    rule=r"\bkaytanto\w*|\bkielletty\b|\bvain\b|\bsallittu\b",
    content=r"\broskaposti\w*",
    many=r"\bliian (?:mont\w+|paljon|usein)\b",
    unknown=r"(?:tuntematon|tuntemattom\w+)",
    fault=r"(?:virhe|syy|tila)",
    unsure=r"(?<!\btarkista )(?<!\btarkista, )\bonko\b",
    passing=(
        r"\b(?:tilapais|valiaikais|loma(?:ll|st|lt|kau)|myohemmin|viikonlop)\w*|\b(?:toistaiseksi|saakka"
        r"|asti|loma[ant]?|lomien|ajaksi|kunnes|kesken"
        r"|kaynnissa)\b|\bei(?:vat)? (?:\S+ ){0,2}?viela\b|\bviela ei|\baikana\b|\bpalaa (?!lahett)"
        r"|\bavataan\b|\bensi (?:viik|kuu|maan|vuo)"
        r"|\bodottaa (?!pois)|\boisin\b|\b(?:rakennetaan|paivitetaan|huolletaan)\b"
    ),
)
GREEK = ReplyLanguage(
    "Greek",
    "greek",
    box=r"(?:χρηστ\w+|παραληπτ\w+|γραμματοκιβωτι\w*|λογαριασμ\w+|διευθυνσ\w+|θυριδα\w*)",
    absent=r"(?:δεν (?:\w+ )?(?:υπαρχ\w+|βρεθηκ\w*|εγκυρ\w*|γνωστ\w*|εγγεγραμμεν\w*|αναγνωριζ\w*)"
    r"|αγνωστ\w+|ανυπαρκτ\w+|μη εγκυρ\w+)",
    no=r"(?:δεν (?:υπαρχει|βρεθηκε|εχουμε)(?: \w+)?|αγνωστ\w+|ανυπαρκτ\w+|μη εγκυρ\w+)",
    closed=r"(?:απενεργοποι\w+|ανεσταλ\w+|κλειστ\w*|εκλεισε|εχει κλεισει|ανενεργ\w*|διαγραφ\w+|καταργη\w+)",
    blocked=r"(?:αποκλει\w+|μπλοκαρ\w+|κλειδωμεν\w+)",
    full=r"(?:γεματ\w+|πληρε\w+)",
    sender=r"\bαποστολ\w+",
    your=r"\b(?:σασ|σου)",
    identity=r"\bκωδικ\w+|\bσυνδεθ\w+|\bταυτοποι\w+",
    rule=r"\bπολιτικ\w+|\bμονο\b|\bαπαγορευ\w+|\bεπιτρεπ\w+",
    content=r"\bανεπιθυμητ\w+",
    many=r"\b(?:παρα|υπερβολικα) πολλ\w+|\bπαρα πολυ\b",
    unknown=r"αγνωστ\w+",
    fault=r"(?:σφαλμα\w*|αιτι\w+|λογ(?:οσ|ο|ουσ)|κατασταση\w*)",
    unsure=r"\b(?:αν|εαν) (?:\w+ ){0,3}?υπαρχ\w+",
    passing=(
        r"\b(?:προσωριν|επανερχ|επαναλειτουργ|ξανα)\w*|\bδιακοπ(?:εσ|ων)\b|\bμε(?:χρι)\b|\bεωσ (?:τ|\d)"
        r"|\bπροσ το παρον\b"
        r"|\bσε (?:αδεια|εξελιξη)\b|\bακομ[αη] δεν\b|\bδεν (?:\S+ ){1,3}?ακομ[αη]\b|\bκατα τη διαρκεια\b"
        r"|\bεπιστρεφει\b|\bαργοτερα\b|\bεπομεν\w+ (?:εβδ|μην)"
        r"|\b(?:ωσπου|οσο|μολισ) (?!(?:η διευθ|βρειτε|εχετε))|\bεωσ οτου\b|\bσε αναμονη\b|\bτη νυχτα\b"
        r"|\bανακατασκευ"
    ),
)
SOUTH_SLAVIC = ReplyLanguage(
    "Croatian, Serbian or Slovene",
    "south-slavic",
    box=(
        r"(?:korisni[kc]\w*|primatelj\w*|prima[lo]\w*|uporabnik\w*|prejemnik\w*|adres[aeu]\w*"
        r"|(?:postansk\w+ )?sanduci\w*"
        r"|racun\w*|nalog\w*|naslov\w*|predal\w*|nabiralnik\w*|корисни[кц]\w*|прима[лo]\w*|примаоц\w*"
        r"|сандуч\w*|налог\w*)"
    ),
    absent=(
        r"(?:ne (?:postoj|obstaj)\w*|ni(?:je|so|su)? (?:\w+ ){0,2}?(?:pronaden|pronadjen"
        r"|nad?jen|naden|najden"
        r"|poznat|znan|vazec|valjan|veljav|registr)\w*|nepoznat\w*|nepostojec\w*|neznan\w*|neobstojec\w*"
        r"|nevazec\w*|neispravn\w*|neveljav\w*|не постој\w*|ниjе (?:\w+ )?(?:пронађен|познат|регистр)\w*"
        r"|није (?:\w+ )?(?:пронађен|познат|регистр)\w*|непознат\w*|непостојећ\w*)"
    ),
    no=(
        r"(?:nepoznat\w*|nepostojec\w*|neznan\w*|neobstojec\w*|nevazec\w*|neispravn\w*|neveljav\w*"
        r"|(?:nema|ne postoji|ne obstaja|ni)(?: t\w+)?|непознат\w*|(?:нема|не постоји)(?: т\w+)?)"
    ),
    closed=(
        r"(?:onemoguc\w+|onemogocen\w*|deaktivir\w+|ugasen\w*|zatvoren\w*|neaktiv\w+|obrisan\w*|izbrisan\w*"
        r"|suspendir\w*|ukinjen\w*|ukinut\w*|zaprt\w*|искључен\w*|затворен\w*|угашен\w*)"
    ),
    blocked=r"(?:blokiran\w*|zakljucan\w*|zaklenjen\w*|блокиран\w*)",
    full=r"(?:(?:je )?(?:pre)?(?:pun|poln)\w?|prepunjen\w*|пун\w?)",
    sender=r"\bposiljate?l\w*|\bposilja[lo]\w*|\bпошиља\w+",
    your=r"\b(?:vas\w{1,3}|ваш\w{0,3})",
    identity=r"\bprijavi\w*|\blozink\w*|\bgeslo\w*",
    rule=r"\bpravil\w+|\bzabranjen\w*|\bprepovedan\w*|\bdopusten\w*|\bdozvoljen\w*|\bdovoljen\w*",
    content=r"\bnezeljen\w*|\bsumnjiv\w*",
    many=r"\b(?:previse|prevec|превише)\b",
    unknown=r"(?:nepoznat\w*|neznan\w*|непознат\w*)",
    fault=r"(?:gresk\w+|pogresk\w+|napak\w+|razlog\w*|stanj\w+|грешк\w+|разлог\w*)",
    unsure=r"(?<!te )(?<!te, )\b(?:da li|postoji li|да ли)\b|\bali \w+ obstaja\b",
    passing=(
        r"\b(?:privremen|zacasn|привремен|odmor|praznik|godisnj|tijekom|kasnije|pozneje)\w*|\bdopust(?:a|u"
        r"|om)?\b|\btokom\b"
        r"|\bdo (?:dal[jn]\w+|nadaljnj|kraja|konca|\d|ponede?i?lj|utork|tork|sred|cetvrt|petk|subot|sobot"
        r"|nedelj)|\bjos (?:ne|ni)\w*|\bza ?sad\b|\bza sada\b|\bzaenkrat\b|\bdok (?:je|se|traje)\b|\bdokler\b"
        r"|\b(?:u tijeku|u toku|v teku)\b|\bponov[no]o? (?:otvor|dost|odpr|aktiv)"
        r"|\bdok (?:ne|nije|racun|plac)|\bceka(?:nj)?\w* (?!bris)|\bnocu\b|\bponoci\b|\b(?:obnavlja"
        r"|rekonstru)\w*"
    ),
)
BALTIC = ReplyLanguage(
    "Lithuanian, Latvian or Estonian",
    "baltic",
    box=(
        r"(?:vartotoj\w+|naudotoj\w+|gavej\w+|adresat\w*|dezut\w+|paskyr\w+|lietotaj\w+|sanemej\w+"
        r"|pastkast\w*|kont[aso]\w{0,2}|adres\w{0,3}|kasutaja\w*|saaja\w*|adressaat\w*"
        r"|postkast\w*|aadress\w*)"
    ),
    absent=(
        r"(?:ner(?:a|astas?)\b|nebuvo rast\w*|neegzistuo\w*|nezinom\w+|negalioja\w*|neteising\w+"
        r"|nav (?:\w+ )?(?:atrast|registret|zinam|derig)\w*|neeksiste\w*|nezinam\w+|nederig\w+|nepastav\w*"
        r"|ei (?:\w+ )?(?:leitud|leita|leidu|eksisteeri|ole(?: olemas)?(?= ?(?:$|[.,;])"
        r"| olemas)|ole registreeritud|ole teada|tunta)"
        r"|tundmatu|puudub|pole(?= ?(?:$|[.,;]))|vigane|kehtetu)"
    ),
    no=(
        r"(?:nezinom\w+|nera(?: toki\w+)?|nerastas|neegzistuojan\w+|neteising\w+|nezinam\w+"
        r"|nav(?: tad\w+| sad\w+)?"
        r"|nederig\w+|neeksistejos\w+|tundmatu|vigane|kehtetu|(?:pole|ei ole) (?:sellist|niisugust))"
    ),
    closed=(
        r"(?:isjungt\w*|uzdaryt\w*|deaktyv\w*|neaktyv\w*|sustabdyt\w*|panaikint\w*|slegt\w*|deaktivet\w*"
        r"|atslegt\w*|neaktiv\w*|apturet\w*|dzest\w*|suletud|deaktiveeritud|peatatud|kustutatud"
        r"|mitteaktiivne)"
    ),
    blocked=r"(?:uzblokuot\w*|uzrakint\w*|bloket\w*|blokeeritud|lukustatud)",
    full=r"(?:(?:yra |ir )?(?:per)?piln\w*|perpildyt\w*|parpildit\w*|tais|taitunud)",
    sender=r"\bsiuntej\w+|\bsutitaj\w+|\bsaatja\w*",
    your=r"\b(?:jusu|teie)",
    identity=r"\bslaptazod\w+|\bparol\w+|\bprisijun\w+",
    rule=r"\bdraudziam\w*|\baizlieg\w+|\bkeelatud\b|\bainult\b|\btikai\b|\btik nuo\b",
    content=r"\bslamst\w*|\bnepageidaujam\w*|\bramps\w*",
    many=r"\bper daug\b|\bparak daudz\b|\bliiga (?:palju|tihti)\b",
    unknown=r"(?:nezinom\w+|nezinam\w+|tundmatu\w*)",
    fault=r"(?:klaida|kluda|viga|tviga|priezast\w+|iemesl\w+|pohjus)",
    unsure=(
        r"\bar (?:\w+ )?(?:egzistuoja|yra)\b|\bvai (?:\w+ )?(?:eksiste|pastav)\w*"
        r"|\bkas (?:\w+ )?(?:eksisteerib|on olemas)\b"
    ),
    passing=(
        r"\b(?:laikin|islaicig|ajuti|atostog|atvalinajum|puhkus)\w*|\buz laiku\b|\biki \w|\blidz \w"
        r"|\bkuni\b|\bkol kas\b"
        r"|\bpagaidam\b|\besialgu\b|\bdar ne|\bvel (?:ne|na)|\bveel (?:ei|pole)\b|\b(?:ei"
        r"|pole) (?:\S+ ){0,2}?veel\b|\b(?:veliau|velak|hiljem)\b"
        r"|\bkol (?:ne|bus)\w*|\blaukia\w*|\bgaida\w*|\bootab\b"
    ),
)
MALAY = ReplyLanguage(
    "Indonesian or Malay",
    "malay",
    box=(
        r"(?:pengguna|penerima|pelanggan|alamat(?: e-?mai?l| emel)?|akun|akaun"
        r"|(?:kotak|peti) (?:surat|masuk|mel)\w*)"
    ),
    absent=(
        r"(?:(?:tidak|tak) (?:\w+ )?(?:ditemukan|ditemui|dijumpai|ada|terdaftar|dikenal\w*|valid|wujud|sah"
        r"|didaftarkan)|belum terdaftar)"
    ),
    no=r"(?:tidak ada|tiada)",
    closed=(
        r"(?:dinonaktifkan|dinyahaktif\w*|non-?aktif|tidak (?:lagi )?aktif|ditutup|ditangguhkan|digantung"
        r"|dihapus)"
    ),
    blocked=r"(?:diblokir|disekat|dikunci)",
    full=r"penuh",
    sender=r"\bpengirim\w*|\bpenghantar\w*",
    your=r"\banda",
    identity=r"\bkata sandi|\bautentikasi|\blog masuk",
    rule=r"\bkebijakan|\bdilarang|\bhanya\b|\bdiizinkan|\bdibenarkan",
    content=r"\bmencurigakan",
    many=r"\bterlalu (?:banyak|sering|kerap)\b",
    unknown=r"tidak (?:dikenal|diketahui)",
    fault=r"(?:kesalahan|ralat|alasan|sebab|status)",
    unsure=r"(?<!\bperiksa )\bapakah\b|\bsama ada\b",
    passing=(
        r"\b(?:sementara|libur\w*|cuti|hingga|sampai|selama|nanti)\b|\bbelum (?!terdaftar)"
        r"|\b(?:dibuka|aktif|aktifkan|tersedia) kembali\b|\bkembali (?:pada|tanggal)\b|\b(?:minggu"
        r"|bulan) depan\b"
        r"|\bsedang (?:di|dalam|me)\w*|\bmenunggu\b|\bmalam hari\b|\bsebelum (?:tanggal|hari|mulai)"
    ),
)
VIETNAMESE = ReplyLanguage(
    "Vietnamese",
    "vietnamese",
    box=r"(?:nguoi (?:dung|nhan|su dung)|hop thu|tai khoan|dia chi(?: e-?mail| thu)?)",
    absent=r"(?:(?:khong|chua) (?:duoc )?(?:ton tai|tim thay|hop le|dung|dang ky)|khong co)",
    no=r"(?:khong (?:tim thay|co|ton tai))",
    closed=r"(?:(?:da |dang )?bi (?:vo hieu hoa|dinh chi|dong|xoa|tam ngung)|da dong|ngung hoat dong)",
    blocked=r"(?:(?:da )?bi (?:\w+ ){0,4}?khoa)",
    full=r"(?:(?:da )?day)",
    sender=r"\bnguoi gui",
    your=r"\bcua ban",
    identity=r"\bmat khau|\bdang nhap|\bxac thuc",
    rule=r"\bchinh sach|\bkhong duoc phep|\bbi cam\b",
    content=r"\bthu rac",
    many=r"\bqua nhieu\b",
    unknown=r"khong (?:xac dinh|ro)",
    fault=r"(?:loi|ly do|trang thai)",
    unsure=r"\bhay khong\b",
    passing=(
        r"\btam (?:thoi|dong|ngung|khoa|dung)\b|\b(?:ky nghi|nghi (?:le|phep|tet|he))\b|\bcho (?:den|toi)\b"
        r"|\bden (?:het|ngay|thang|thu|khi)\b|\bchua (?:duoc )?(?:kich hoat|tao|mo|di chuyen)\b|\bmo lai\b"
        r"|\btro lai\b|\btrong (?:thoi gian|khi)\b"
        r"|\bchua (?:ton tai|co\b)|\bcho (?:thanh toan|xac nhan|duyet)"
        r"|\bdang (?:duoc )?(?:xay|khoi phuc|nang cap|bao tri|di chuyen)"
    ),
)
SEMITIC = ReplyLanguage(
    "Arabic, Persian or Hebrew",
    "semitic",
    box=fold(
        r"(?:\w{0,3}(?:مستخدم|مستلم|متلقي|مستقبل|حساب|عنوان|صندوق|كاربر|کاربر|گیرنده|نشانی)\w{0,3}"
        r"|ה?(?:משתמש|נמען|תיבה|תיבת|חשבון|כתובת)\w{0,2})"
    ),
    absent=fold(
        r"(?:غير (?:موجود|معروف|صالح|مسجل)\w*|لا يوجد|مجهول\w*|وجود ندارد|(?:یافت|پیدا) نشد|نامعتبر"
        r"|ناشناخته|(?:לא|אינו|אינה|איננו) (?:\w+ )?(?:קיי?מ\w*|קיים|נמצא\w*|מוכר\w*|רשומ?\w*"
        r"|תקינ?\w*|ידוע\w*))"
    ),
    no=fold(r"(?:لا يوجد|لم يتم العثور على|אין|לא (?:נמצא|נמצאה|קיים|קיימת))"),
    closed=fold(
        r"(?:معطل\w*|موقوف\w*|مغلق\w*|غير نشط\w*|غیرفعال|מושבת\w*|נסגר\w*|סגור\w*|לא פעיל\w*|מושעה|מושעית)"
    ),
    blocked=fold(r"(?:محظور\w*|مسدود\w*|חסומ?\w*|נעול\w*)"),
    full=fold(r"(?:ممتلئ\w*|پر|מלא\w*)"),
    sender=fold(r"مرسل|فرستنده|שולח"),
    your=fold(r"\b(?:شما|שלך)"),
    identity=fold(r"كلمة (?:ال)?مرور|رمز عبور|סיסמה"),
    rule=fold(r"سياسة|ممنوع|فقط|מדיניות|רק "),
    content=fold(r"مزعج|הונאה"),
    many=fold(r"(?:عدد كبير جدا|أكثر من اللازم|بیش از حد|יותר מדי)"),
    unknown=fold(r"(?:غير معروف\w*|مجهول\w*|ناشناخته|לא ידוע\w*)"),
    fault=fold(r"(?:خطأ|سبب|שגיאה|סיבה)"),
    unsure=fold(r"(?:إذا كان|ما إذا|האם|אם ה)"),
    passing=fold(
        r"(?:\bقيد \w|\b(?:إلى|لحين|ريثما|أثناء|خلال) (?:حين|ال)|\bبعد\b(?= ?(?:$|[^\w ]))|بانتظار|مؤقت"
        r"|זמני|حتى|إجازة|عطلة|يعود|سيعاد|مرخصی|تعطیلات|هنوز|עדיין|חופש|ייפתח|יחזור)"
        r"|\bעד (?:יום|ה|ל|ש|סוף|\d)|בינתיים|כל עוד|בתהליך|ממתין|\bتا (?:\d|پایان|روز|اطلاع)"
    ),
)
LANGUAGES = (
    *(GERMAN, FRENCH, IBERIAN, ITALIAN, DUTCH, POLISH, CZECH, SCANDINAVIAN, TURKISH, RUSSIAN),
    *(HUNGARIAN, ROMANIAN, BULGARIAN, FINNISH, GREEK, SOUTH_SLAVIC, BALTIC, MALAY, VIETNAMESE, SEMITIC),
)


@dataclass(frozen=True, slots=True)
class UnspacedLanguage(Language):
    """The words of a language without blanks; `closed` may stand before the noun, too.

    Attributes:
        space: what is used up, beside the mailbox itself.
        other: speaks of us, of a machine or of what is allowed.
        plain: says nothing by itself, or why a mailbox is closed for good.
    """

    space: str
    other: str
    plain: str


CHINESE = UnspacedLanguage(
    "Chinese",
    "chinese",
    box=(
        r"(?:用户|用戶|使用者|收件人|收件箱|收信人|收件者|邮箱|郵箱|信箱|帐号|账号|帐户|账户|帳號|帳戶|地址"
        r"|(?:此|该|該|[这這](?:个|個|位)?)人(?![员員工数數]))"
    ),
    absent=r"(?:不存在|未找到|找不到|不正确|不正確|错误|无效|無效|未注册|未註冊|未开通|查无|查無)",
    no=(
        r"(?:(?:查无|查無)(?:此人)?|无|無|没有|沒有|找不到|不存在|未知|无效|無效)"
        r"(?:的?此|该|該|這個|这个|这|的|该名)?"
    ),
    closed=(r"(?:禁用|停用|冻结|凍結|锁定|鎖定|注销|註銷|关闭|關閉|封禁|封停|过期|過期|暂停|暫停|停止使用)"),
    space=r"(?:容量|空间|空間|配额|配額)",
    full=r"(?:满|滿|超|不足)",
    sender=r"(?:发件|寄件|发信|發信|发送者|發送者)",
    other=(
        r"发送|發送|您|你|域名|服务器|伺服器|策略|拒绝|拒絕|禁止|黑名单|黑名單|垃圾|仅|只|权限|認證|认证|频"
        r"|\bip|密[钥鑰]|证书|證書|(?:数据库|数据庫|資料庫|目录|目錄|名录|表)(?![中里裡内內上])"
    ),
    many=r"过多|過多|太多|(?:比例|数量|數量)过?[高大]",
    unsure=r"(?:无法|無法|不能|未能|不知)[^,.。]{0,12}是否|是否存在(?:未知|不明)|(?:未知|不明)(?:的)?(?:错误|錯誤|原因)",
    passing=(
        r"(?:同步|暂时|暫時|临时|臨時|暂[不未]|暫[不未]|直到|假期|休假|放假|度假|出差|期间|期間|(?<!无法)(?<!無法)(?<!不能)(?<!不可)恢[复復]"
        r"|重新[开開启啟]|稍[后後晚]|正在|春节|春節|国庆|國慶|元旦"
        r"|下[周週]|下个?個?月|明天|尚未(?:激活|启用|啟用|迁移|遷移|创建|建立|开通|開通|生效)|[还還][没沒]"
        r"|[周週]末|(?:重建|审核|審核|调查|調查|迁移|遷移|维护|維護|更新|处理|處理|修复|修復)中|(?:等待|等候)"
        r"|[至到](?:下|明|本|\d|[周週]|星期|月)|(?:冻结|凍結|停用|锁定|鎖定|关闭|關閉|暂停|暫停|禁用|封停)了?"
        r"[一二两兩三四五六七八九十\d]+(?:天|小时|小時|[周週]|日|个月|個月)|解[冻凍锁鎖])"
    ),
    plain=(
        r"管理员|管理員|管理者|联系人|聯絡人|这个|這個|对方|對方|已经|已經|由于|由於|不再|无法|無法|不能"
        r"|不可|处在|处于|處於|状态|狀態|目前|当前|當前|现在|現在|电子|電子|邮件|郵件|信件|企业|企業"
        r"|公司|单位|系统|系統|员工|員工|客户|客戶|会员|會員|本人|长期|長期|多年|超过|超過|逾期|没有"
        r"|沒有|登录|登錄|登入|使用|活动|欠费|欠費|缴费|繳費|到期|合同|服务|服務|申请|申請|要求|主动"
        r"|主動|违规|違規|违反|条款|條款|离职|離職|退休|去世|离开|離開|终止|終止|取消|永久|彻底|退信"
        r"|接收|收取|收到|收信|收件|发往|寄送|投递|投遞|联系|聯繫|错误|代码|去年|前年|此|该|該|本|其|已"
        r"|被|遭|的|了|是|为|為|而|并|且|或|与|與|和|及|由|于|於|因|从|從|自|请|請|勿|再|不|未|年|月|日"
        r"|天"
    ),
)
JAPANESE = UnspacedLanguage(
    "Japanese",
    "japanese",
    box=(
        r"(?:ユーザー?|利用者|受信者|受取人|宛て?先|アドレス|メールボックス|受信(?:箱|トレイ|ボックス)"
        r"|アカウント|加入者|会員|ディレクトリ(?:のリスト)? ?に)"
    ),
    absent=(
        r"(?:存在しま?せ?んでした|存在しません|存在しない|存在せず|見つかりません|見つからない"
        r"|見つけられません|不明"
        r"|ありません|登録されてい(?:ません|ない)|未登録|無効|(?<!て)(?<!で)いません|使(?:用さ|わ)れて(?:い|おり)ません"
        r"|削除され)"
    ),
    no=r"(?:存在しない|不明な|該当(?:する)?|無効な|未登録の|登録されていない)",
    closed=r"(?:停止|無効化|凍結|解約|閉鎖|休止|退会|ロックされ)",
    space=r"(?:容量|保存領域|クォータ)",
    full=r"(?:いっぱい|一杯|満杯|超え|超過|オーバー|不足|満タン)",
    sender=r"(?:送信者|送信元|差出人|発信者)",
    other=(
        r"あなた|お客様|御社|貴社|サーバ|ドメイン|ポリシー|拒否|禁止|迷惑|スパム|認証|許可|ブラックリスト"
        r"|接続|鍵|証明書|\bip|(?:データベース|ディレクトリー?|名簿|テーブル)(?![のにで内上中])"
    ),
    many=r"多すぎ",
    unsure=r"(?:存在する|有効|いる)か(?!.{0,8}ご?確認(?:くだ|して|下))|不明な(?:エラー|理由)",
    passing=(
        r"(?:同期|一時|まで(?!ご|お|連絡|問)|休暇|休業|休み|連休|年末年始|お盆|出張|再開|復帰|後で|後ほど"
        r"|のちほど|しばらく|まだ|当面|来週|来月|明日"
        r"|(?:移行|メンテナンス|処理|作業|準備|期間|構築|復旧|調査|審査|更新|改修|点検)中|間は|[日時週]間)"
    ),
    plain=(
        r"されています|していました|されました|なりました|によって|いません|している|しました|受け取れ"
        r"|受け付け|メール|により|すでに|ました|ません|いない|されて|なって|管理者|長期間|年以上|未払い"
        r"|支払い|エラー|コード|この|その|より|から|ため|現在|既に|です|ます|いる|いた|され|しま|して"
        r"|せん|なり|なっ|ある|あり|おり|状態|済み|処理|会社|社員|退職|契約|解除|終了|利用|使用|長期"
        r"|年間|料金|支払|滞納|規約|違反|不正|本人|希望|要請|申請|永久|完全|受信|配信|配達|でき|電子"
        r"|番号|連絡|ご|お|は|が|を|に|で|と|の|へ|も|し|さ|れ|て|た|な|い|り|る|済|未|年|月|日"
    ),
)
KOREAN = UnspacedLanguage(
    "Korean",
    "korean",
    box=(r"(?:사용자|수신자|수신인|받는 ?사람|주소|계정|메일함|편지함|사서함|회원|아이디)"),
    absent=(
        r"(?:존재하지 ?않|찾을 ?수 ?없|(?<!수 )(?<!수)없습니다|없음|등록되지 ?않|알 ?수 ?없|유효하지 ?않"
        r"|아닙니다)"
    ),
    no=(r"(?:존재하지 ?않는|없는|등록되지 ?않은|알 ?수 ?없는|유효하지 ?않은|잘못된)(?: ?메일| ?이메일)?"),
    closed=r"(?:정지|휴면|비활성|해지|탈퇴|중지|잠긴|잠겼|폐쇄|만료)(?: ?상태의)?(?: ?메일)?",
    space=r"(?:용량|공간|할당량)",
    full=r"(?:초과|가득|부족|꽉)",
    sender=r"(?:발신|보내는|보낸|송신)",
    other=r"서버|도메인|정책|거부|금지|스팸|인증|허용|귀하|귀사|당신|접속|\bip|(?:데이터베이스|디렉터리|디렉토리|목록)(?!에|내)",
    many=r"너무 ?많",
    unsure=r"존재하는지|존재 ?여부|알 ?수 ?없는 ?(?:오류|이유)",
    passing=(
        r"(?:동기화|일시|임시|당분간|잠시|아직|나중에|까지(?! ?(?:연락|문의))|휴가|휴일|휴직|방학|연휴"
        r"|출장|재개|복귀|다시 ?(?:열|사용|이용|활성)"
        r"|(?:이전|점검|진행|작업|구축|복구|조사|심사|갱신|수리|업데이트) ?중"
        r"|다음 ?[주달]|내일"
        r"|동안(?! ?(?:미?사용|접속|이용|로그인)))"
    ),
    plain=(
        r"되었습니다|에 ?의해|로 ?인해|있습니다|오랫동안|하지 ?않|관리자|운영자|시스템|됩니다|입니다"
        r"|장기간|미사용|미접속|미이용|로그인|이메일|수 ?없|습니다|해당|본인|고객|회사|직원|으로|되어"
        r"|되었|있는|상태|전환|처리|현재|이미|장기|사용|이용|접속|않아|않은|요금|미납|체납|계약|해지"
        r"|탈퇴|퇴사|퇴직|약관|위반|요청|신청|삭제|영구|메일|전자|우편|수신|받을|니다|이상|불가|오류"
        r"|코드|본|그|로|은|는|이|가|을|를|에|의|과|와|및|된|년|월|일"
    ),
)
THAI = UnspacedLanguage(
    "Thai",
    "thai",
    box=r"(?:ผู้ใช้|ผู้รับ|กล่องจดหมาย|ตู้จดหมาย|บัญชี|อีเมล)",
    absent=r"(?:ไม่พบ|ไม่มีอยู่|ไม่รู้จัก|ไม่ถูกต้อง|ไม่ได้ลงทะเบียน|ไม่มีในระบบ)",
    no=r"(?:ไม่พบ|ไม่มี|ไม่รู้จัก)(?:ชื่อ|ที่อยู่)?",
    closed=r"(?:ถูกระงับ|ระงับการใช้งาน|ปิดใช้งาน|ถูกปิด)",
    space=r"(?:พื้นที่|โควต้า|โควตา)",
    full=r"(?:เต็ม|เกิน)",
    sender=r"ผู้ส่ง",
    other=r"เซิร์ฟเวอร์|โดเมน|นโยบาย|ปฏิเสธ|สแปม|อนุญาต|ของคุณ|\bip|^ฐานข้อมูล",
    many=r"มากเกินไป",
    unsure=r"หรือไม่",
    passing=r"(?:ชั่วคราว|จนถึง|จนกว่า|วันหยุด|ระหว่าง|ลาพัก|พักร้อน|กลับมา|ยังไม่|ภายหลัง|สัปดาห์หน้า)",
    plain=(
        r"เนื่องจาก|ผู้ดูแล|ข้อความ|สามารถ|อีเมล|แล้ว|ระบบ|เป็น|เวลา|ชำระ|เงิน|ค้าง|ถาวร|นี้|ของ|ได้|และ"
        r"|โดย|ไม่|รับ|การ|ใช้|งาน|นาน|ถูก|ลบ"
    ),
)


def _folded(language: UnspacedLanguage) -> UnspacedLanguage:
    """Return a language whose patterns are for texts as `fold` leaves them."""
    patterns = [member.name for member in fields(language) if member.name not in {"name", "id"}]
    return replace(language, **{name: fold(getattr(language, name)) for name in patterns})


UNSPACED = tuple(map(_folded, (CHINESE, JAPANESE, KOREAN, THAI)))

BORROWED = r"(?:mailbox|account|alias)"
"""English nouns for the mailbox that every language borrows."""

ADDRESS = r"(?:adres[aeyu]?|adresse?n?|adres\w{0,3}|direccion|endereco|indirizzo|адрес\w{0,3})\b"
"""Nouns that may also be an address of ours."""

MACHINE = (
    r"(?:\w{0,12}-?(?:server|host|domain|netz|rechner)\w{0,4}|provider|serveur|hote|domaine|domein"
    r"|fournisseur"
    r"|reseau|servidor|dominio|proveedor|provedor|red|rede|rete|netwerk"
    r"|serwer\w*|domen\w*|siec|sunucu\w*|сервер\w*|хост\w*|домен\w*|сет\w"
    r"|(?:adresse |direccion |endereco |indirizzo |adres )?ip)\b"
)
"""Nouns for what connects to a server."""

_HOLDING = (
    r"(?:(?:e[- ]?)?(?:mail[- ]?)?adres(?:se)?|\w{0,8}konto|compte|direccion|cuenta|usuario|endereco|conta"
    r"|utilizador"
    r"|indirizzo|utente|casella|gebruiker|account|mailbox|identifiant"
    r"|skrzynka|schranka|ucet|hesap|аккаунт|ящик|адрес|adres[a]?|postfach|boite|buzon|caixa|brevlada"
    r"|postkasse|postbus|postvak|konto|скриньк\w*|(?:postaf|f)iok\w*)\b"
)
"""Nouns for what one has at a mail server."""

_YOUR = "(?:" + "|".join(language.your for language in LANGUAGES) + ")"

YOUR_HOST = rf"{_YOUR} {MACHINE}"
"""Speaks of our host, in any of the languages."""

YOURS = rf"(?:{_YOUR} {_HOLDING}|\b(?:tilisi|postilaatikkosi|osoitteesi)\b|\bλογαριασμοσ σασ\b)"
"""Speaks of an account or an address of ours: "your account does not exist"."""
