"""What a mailbox has and is none: that it is missing or closed says nothing of the mailbox."""

from __future__ import annotations

from itertools import product

import pytest

from mailsift.pipeline.facts import Answer
from mailsift.pipeline.replies.classifier import SmtpReply, classify, without_things
from mailsift.pipeline.replies.table import Stage

_INVALID = {Answer.NOT_FOUND, Answer.DISABLED}
_CODES = ("", "5.1.1", "5.2.1", "5.3.0", "5.7.1")

# language -> things, whose they are, what is said of them; the last of the things of each were held back
SENTENCES = {
    "English": (
        "The queue,The connector,The forwarding rule,The webhook,The quarantine,The mobile app,The DKIM key",
        "for this mailbox,of the recipient,of user <joe@y.example>,behind this address",
        "does not exist,is disabled,was deleted,is unknown,has expired,is closed",
    ),
    "German": (
        "Die Warteschlange,Der Filter,Das Zertifikat,Die Weiterleitung,Die Quarantäne,Der Virenscanner",
        "des Empfängers,für dieses Postfach,des Benutzers,dieses Kontos",
        "existiert nicht,ist gesperrt,wurde gelöscht,ist unbekannt,ist geschlossen",
    ),
    "French": (
        "La file d'attente,Le filtre,La passerelle,La redirection,Le calendrier,Le pare-feu",
        "du destinataire,de cette boîte,de l'utilisateur,pour cette adresse",
        "n'existe pas,est bloqué,a été supprimée,est inconnu,est fermée",
    ),
    "Spanish": (
        "La cola,El filtro,La pasarela,El reenvío,El calendario,El cortafuegos",
        "del destinatario,de este buzón,del usuario,para esta dirección",
        "no existe,está bloqueado,fue eliminada,es desconocido,está cerrada",
    ),
    "Portuguese": (
        "A fila,O filtro,O certificado,A rota,O calendário",
        "do destinatário,desta caixa,do usuário,para este endereço",
        "não existe,está bloqueada,foi excluída,é desconhecido",
    ),
    "Italian": (
        "La coda,Il filtro,Il certificato,L'inoltro,Il calendario",
        "del destinatario,di questa casella,dell'utente,per questo indirizzo",
        "non esiste,è bloccata,è stata eliminata,è sconosciuto,è chiusa",
    ),
    "Dutch": (
        "De wachtrij,Het filter,Het certificaat,De doorsturing,De agenda",
        "van de ontvanger,van deze mailbox,voor dit adres,van dit account",
        "bestaat niet,is geblokkeerd,is verwijderd,is onbekend",
    ),
    "Polish": (
        "Kolejka,Reguła,Przekierowanie,Kwarantanna,Kalendarz",
        "odbiorcy,tej skrzynki,użytkownika,tego konta",
        "nie istnieje,jest zablokowana,została usunięta,jest nieznany",
    ),
    "Czech": (
        "Karanténa,Filtr,Fronta,Kalendář",
        "příjemce,uživatele,této schránky",
        "neexistuje,je zablokována,byla smazána",
    ),
    "Russian": (
        "Очередь,Фильтр,Переадресация,Шлюз",
        "получателя,этого ящика,пользователя,этой учетной записи",
        "не существует,заблокирована,удалена,неизвестен",
    ),
    "Swedish": (
        "Kön,Regeln,Certifikatet,Kalendern",
        "för mottagaren,för denna brevlåda,för denna adress",
        "finns inte,är blockerad,har tagits bort,är okänd",
    ),
    "Norwegian": (
        "Filteret,Sertifikatet,Kalenderen",
        "til mottakeren,for denne brukeren,til denne kontoen",
        "finnes ikke,er sperret,er slettet,er ukjent",
    ),
    "Finnish": (
        "Vastaanottajan,Käyttäjän,Tämän tilin",
        "suodatin,varmenne,kalenteri,jono",
        "ei ole olemassa,on estetty,on poistettu,on tuntematon",
    ),
    "Turkish": (
        "Alıcının,Kullanıcının,Bu hesabın",
        "kuyruğu,filtresi,sertifikası,takvimi",
        "bulunamadı,devre dışı,silindi,bilinmiyor",
    ),
    "Hungarian": (
        "A címzett,A felhasználó,A postafiók",
        "szűrője,tanúsítványa,naptára,sora",
        "nem létezik,le van tiltva,törölve,ismeretlen",
    ),
}


def made_invalid(*columns: str) -> list[tuple[str, str]]:
    """Return which sentences, a word of each column in turn, make a mailbox invalid with which code."""
    sentences = map(" ".join, product(*(column.split(",") for column in columns)))
    return [
        (code, sentence)
        for code, sentence in product(_CODES, sentences)
        if classify(SmtpReply(Stage.RCPT, 550, code, sentence)).answer in _INVALID
    ]


@pytest.mark.parametrize("language", SENTENCES)
def test_a_thing_of_the_mailbox_that_is_missing_or_closed_makes_nobody_invalid(language: str) -> None:
    assert made_invalid(*SENTENCES[language]) == []


# registers, and what is said of them
AWAY = (
    (
        "User database,Recipient directory,Our user table,Mailbox registry,Address lookup,Our index of users",
        "is down,does not exist,is not available,failed,not found,is locked,is disabled,could not be opened",
    ),
    (
        "Das Benutzerverzeichnis,Die Empfängerdatenbank,Die Datenbank der Benutzer,Die Tabelle der Konten",
        "ist nicht erreichbar,wurde nicht gefunden,existiert nicht,ist gesperrt",
    ),
    (
        "L'annuaire des destinataires,La base de données des utilisateurs,La table des boîtes",
        "est indisponible,est introuvable,n'existe pas,est fermée",
    ),
    (
        "El directorio de usuarios,La base de datos de usuarios,La tabla de destinatarios",
        "no está disponible,no se encuentra,no existe,está bloqueada",
    ),
    (
        "Il database degli utenti,L'elenco dei destinatari,La rubrica degli utenti",
        "non è disponibile,non è stato trovato,non esiste,è bloccato",
    ),
    ("O diretório de usuários,A base de dados de usuários", "não foi encontrada,não existe,está bloqueada"),
    ("De gebruikersdatabase,De lijst van gebruikers", "is niet gevonden,bestaat niet,is geblokkeerd"),
    ("Baza użytkowników,Katalog odbiorców", "nie została znaleziona,nie istnieje,jest zablokowana"),
    ("Каталог пользователей,База получателей", "не найден,не существует,отключена"),
    ("Användardatabasen,Katalogen över mottagare", "hittades inte,finns inte,är spärrad"),
    ("Databáze uživatelů,Adresář příjemců", "nebyl nalezen,neexistuje"),
)


@pytest.mark.parametrize(("registers", "text"), AWAY)
def test_a_register_that_is_away_makes_nobody_invalid(registers: str, text: str) -> None:
    assert made_invalid(registers, text) == []


# what is ours, and what is said of it
OURS = (
    (
        "Das Konto des Absenders,Ihr Konto,Ihr Postfach,Die Absenderadresse,Ihre E-Mail-Adresse",
        "existiert nicht,ist gesperrt,wurde gelöscht,ist unbekannt",
    ),
    (
        "Le compte de l'expéditeur,Votre compte,Votre boîte,L'adresse de l'expéditeur,Votre adresse",
        "n'existe pas,est bloqué,a été supprimée,est inconnue",
    ),
    (
        "La cuenta del remitente,Su cuenta,Su buzón,La dirección del remitente,Su dirección",
        "no existe,está bloqueada,fue eliminada,es desconocida",
    ),
    (
        "L'account del mittente,Il vostro account,L'indirizzo del mittente,Il tuo indirizzo",
        "non esiste,è bloccato,è stato eliminato,è sconosciuto",
    ),
    (
        "A conta do remetente,Sua conta,Sua caixa,O endereço do remetente,Seu endereço",
        "não existe,está bloqueada,foi excluída,é desconhecida",
    ),
    (
        "Het account van de afzender,Uw account,Uw mailbox,Het adres van de afzender,Uw adres",
        "bestaat niet,is geblokkeerd,is verwijderd,is onbekend",
    ),
    (
        "Konto nadawcy,Twoje konto,Państwa skrzynka,Adres nadawcy,Twój adres",
        "nie istnieje,jest zablokowane,zostało usunięte,jest nieznany",
    ),
    (
        "Учетная запись отправителя,Ваш аккаунт,Ваш ящик,Адрес отправителя,Ваш адрес",
        "не существует,заблокирован,удален,неизвестен",
    ),
    (
        "Účet odesílatele,Váš účet,Vaše schránka,Adresa odesílatele",
        "neexistuje,je zablokován,byl smazán",
    ),
    (
        "Avsändarens konto,Ditt konto,Din brevlåda,Avsändarens adress",
        "finns inte,är blockerat,har tagits bort,är okänt",
    ),
    (
        "Lähettäjän tili,Tilisi,Postilaatikkosi,Lähettäjän osoite",
        "ei ole olemassa,on estetty,on poistettu",
    ),
    (
        "A feladó fiókja,Az Ön fiókja,Az Ön postafiókja,A feladó címe",
        "nem létezik,le van tiltva,törölve",
    ),
    (
        "Gönderenin hesabı,Hesabınız,Posta kutunuz,Gönderenin adresi",
        "bulunamadı,devre dışı,silindi",
    ),
    (
        "Ο λογαριασμός του αποστολέα,Ο λογαριασμός σας,Η διεύθυνση του αποστολέα",
        "δεν υπάρχει,είναι κλειδωμένος",
    ),
    (
        "Обліковий запис відправника,Ваша скринька,Адреса відправника",
        "не існує,заблоковано,видалено",
    ),
    (
        "Afsenderens konto,Din konto,Afsenderens adresse",
        "findes ikke,er spærret,er slettet",
    ),
)


@pytest.mark.parametrize(("ours", "text"), OURS)
def test_an_account_or_address_of_ours_makes_nobody_invalid(ours: str, text: str) -> None:
    assert made_invalid(ours, text) == []


@pytest.mark.parametrize("sentence", ["用户数据库不存在", "ユーザーデータベースが存在しません"])
def test_nor_does_one_in_a_language_without_spaces(sentence: str) -> None:
    assert classify(SmtpReply(Stage.RCPT, 550, "", sentence)).answer not in _INVALID


@pytest.mark.parametrize(
    "sentence",
    [
        "User unknown in our recipient directory",
        "mailbox lookup returned nothing for jane",
        "在用户数据库中找不到该用户",
        "データベースに該当するユーザーが存在しません",
        "Der Benutzer wurde im Verzeichnis nicht gefunden",
        "L'utilisateur est introuvable dans l'annuaire",
        "Пользователь не найден в базе",
    ],
)
def test_who_is_not_in_the_register_is_not_there(sentence: str) -> None:
    assert classify(SmtpReply(Stage.RCPT, 550, "", sentence)).answer is Answer.NOT_FOUND


@pytest.mark.parametrize(
    "sentence",
    [
        "The recipient's gateway is closed",
        "Mailbox queue not found",
        "Account webhook is disabled",
        "joe@y.example: connector does not exist",
        "The trust between your side and this address does not exist",
    ],
)
def test_nor_does_one_that_stands_behind_it(sentence: str) -> None:
    assert classify(SmtpReply(Stage.RCPT, 550, "5.1.1", sentence)).answer not in _INVALID


@pytest.mark.parametrize(
    "text",
    [
        "user unknown in our user database",
        "mailbox not found in the mailbox store",
        "the account of this user does not exist",
        "the name of the recipient is unknown",
        "invalid mailbox path",
    ],
)
def test_where_a_mailbox_was_looked_for_and_what_stands_for_it_stay(text: str) -> None:
    assert without_things(text) == text
