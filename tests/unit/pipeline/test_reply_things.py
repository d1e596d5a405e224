"""What a mailbox has and is none: that it is missing or closed says nothing of the mailbox."""

from __future__ import annotations

from itertools import product

import pytest

from mailsift.pipeline.facts import Answer
from mailsift.pipeline.replies.classifier import SmtpReply, classify
from mailsift.pipeline.replies.table import Stage
from mailsift.pipeline.replies.things import without_things

_INVALID = {Answer.NOT_FOUND, Answer.DISABLED}
_CODES = ("", "5.1.1", "5.2.1", "5.7.1")

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


@pytest.mark.parametrize("language", SENTENCES)
def test_a_thing_of_the_mailbox_that_is_missing_or_closed_makes_nobody_invalid(language: str) -> None:
    words = [column.split(",") for column in SENTENCES[language]]
    sentences = [" ".join(some) for some in product(*words)]
    assert [
        (code, sentence)
        for code, sentence in product(_CODES, sentences)
        if classify(SmtpReply(Stage.RCPT, 550, code, sentence)).answer in _INVALID
    ] == []


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
