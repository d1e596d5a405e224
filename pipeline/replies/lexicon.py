"""What single words stand for in the replies of mail servers, in two dozen languages: data.

Words are written as simplified texts have them (classifier.simplify): lower case, no accents, no й or ё;
"word*" is how a word begins. Each line or two is a language. What the words of one sentence amount to is said
in mailsift.pipeline.replies.meaning.
"""

from __future__ import annotations

from typing import Final


class Word:
    """What a word stands for, each a bit of a number; a word may stand for more than one thing."""

    NOTHING: Final = 0
    BOX: Final = 1 << 0  # a mailbox or its owner
    PERSON: Final = 1 << 1  # only the owner, who may be gone
    NOBODY: Final = 1 << 2  # says by itself that nobody has the mailbox
    GONE: Final = 1 << 3  # said of what is not there
    LEFT: Final = 1 << 4  # said of somebody who went away
    NOT: Final = 1 << 5
    THERE: Final = 1 << 6  # with NOT: not there
    CLOSED: Final = 1 << 7
    ACTIVE: Final = 1 << 8  # with NOT: closed
    ROOM: Final = 1 << 9
    FULL: Final = 1 << 10  # said of a box or its room
    SPENT: Final = 1 << 11  # said of room only
    ELSE: Final = 1 << 12  # a thing that is neither a mailbox nor its owner
    MINE: Final = 1 << 13  # speaks of us: nothing is concluded
    TRAFFIC: Final = 1 << 14
    MUCH: Final = 1 << 15
    STRANGE: Final = 1 << 16
    AGAIN: Final = 1 << 17
    AT: Final = 1 << 18  # what follows is a place and not what is spoken of
    WHILE: Final = 1 << 19  # a day, a feast or so many of them: what lasts no longer passes
    SINCE: Final = 1 << 20  # tells from when on, or that nobody has used it for long
    NO: Final = 1 << 21  # denies that there is what follows: "no user", and not "does not"


WORDS: Final = {
    Word.BOX: """
        theaddress mailbox mbox inbox maildir mailstore maildrop mailfile user userid username recipient
        rcpt addressee* account alias address emailaddress mailaddress subscriber* customer
        login mailid localpart homedir* box mailnutzer pobox uid handle
        empfang* empfaeng* adressat* postfach* postfaech* mailkonto benutzer* nutzer* kennung
        mailadresse emailadresse posteingang* zieladresse adresse anschrift teilnehmer* mitglied kunde kundin
        destinataire* utilisateur* usager* abonne abonnee boite bal compte messagerie titulaire
        adherent
        usuari* buzon* cuenta direccion casilla corre* bandeja titular abonado
        utilizador* conta endereco caixa assinante
        utente* utenza casella indirizzo titolare abbonato
        gebruiker* ontvanger* geadresseerde postbus postvak* mailadres emailadres klant
        odbiorc* adresat* skrzynk* uzytkownik* kont* adres adresu
        prijem* schrank* uzivatel* pouzivatel* ucet uctu
        mottagar* modtager* mottaker* anvandar* bruger* bruker*
        postkass* postboks* brevlad* postlad* innboks* inkorg*
        adressen epostadress*
        vastaanottaj* kayttaj* postilaatik* sahkopostiosoit* osoit* tili tilia tilin
        cimzett* felhasznal* postafiok* fiok postalad* emailcim*
        destinatar* utilizator* casut* cont contul adresa
        polucatel* poluchatel* polzovatel* yaschik* yashik* jaschik* abonent*
        получател* адресат* пользовател* ящик* почтов* аккаунт* абонент* учетн* адрес адреса адресу
        notand* netfang* postholf*
        акаунт* отримувач* одержувач* користувач* скриньк* обліков* кутия* потребител*
        παραληπτ* paralipt* xrist* χρηστ* λογαριασμ* γραμματοκιβωτι* θυριδ* διευθυνσ*
        alici* kullanici* hesa* posta kutu* adresi eposta uye*
        primatel* primaoc* korisnik* sanducic* nalog prejemnik* uporabnik* predal
        gavej* sanem* lietotaj* naudotoj* saaja* kasutaj* postkast*
        penerima pengguna peti akaun akun alamat kotak
        erabiltzaile* hartzaile* postontzi* helbide* perdorues* marres* llogari*
        उपयोगकर्ता* प्राप्तकर्ता* मेलबॉक्स खाता खाते
        הנמען נמען המשתמש משתמש התיבה תיבת תיבה החשבון חשבון הכתובת כתובת
        المستخدم مستخدم المستلم المستقبل صندوق الحساب حساب العنوان عنوان البريد
        """,
    Word.PERSON: """
        person* nobody anybody staff* colleague* member* student* people body owner individual
        mitarbeiter* kolleg* niemand inhaber* angestellt*
        employe* collaborateur* collaboratrice* salarie* agent
        empleado* nadie trabajador* funcionari* colaborador* pessoa ninguem
        dipendente collaboratore nessuno
        medewerker* persoon
        pracownik* osob* zamestnan* nikt nikdo
        medarbejder* medarbeider* medarbetar* ansatt* anstall* ingen
        сотрудник* работник* человек* никто
        calisan* kimse kisi
        somebody someone anyone everyone recipient human pupil* resident*
        schuler* schueler* studierende* eleve eleves etudiant* alumn* aluno* aluna* allievo leerling*
        elev elever opiskelij* oppilas* uczen uczni* zak* tanul* ogrenci* ученик* студент* учн* karyawan*
        pegawai*
        lehrer* enseignant* profesor* professor* docente* leraar teacher* клиент*
        """,
    Word.GONE: """
        abolished nerast* непознат*
        unknown* nonexist* inexist* missing gone vanished invalid* wrong bogus
        misspel* mistyped misaddressed unrecogni* unlisted unregistered unassigned undefined unmatched
        nosuch* notfound erased deleted removed withdrawn nonesuch vacant void fictitious unallocated
        untraceable unresolv* unroutable purged dropped wiped delisted
        unbekannt* ungultig* ungueltig* falsch* fehlerhaft* geloscht* geloescht* entfernt*
        unzustellbar* nichtexist*
        inconnu* introuvable* erron* supprim* effac* incorrect* absent* inexacte*
        desconocid* desconhecid* incorret* eliminad* borrad* excluid* apagad* removid*
        errad* equivocad* retirad* suprimid*
        sconosciut* inesistent* errat* sbagliat* eliminat* cancellat* rimoss* soppress*
        onbekend* ongeldig* onjuist* verwijderd* foutief* foute
        nieznan* nieistniej* bledn* nieprawidlow* niepoprawn* usunie* skasowan*
        neexist* neznam* neplatn* nenalez* nenasl* smazan* zrusen* zmazan* nespravn*
        okan* ukendt* ukjent* ogiltig* ugyldig* saknas mangler slettet raderad* borttag* fjernet felaktig*
        tuntemat* virheellin* poistett*
        ismeretlen* ervenytelen* hibas torolt* torolve megszunt
        necunoscut* sters* gresit*
        несуществ* отсутств* неверн* удален* недействит* некорректн* ошибочн* невідом* відсутн*
        видален* неправильн* неизвест* изтрит*
        αγνωστ* ανυπαρκτ* λαθ* διαγραφ*
        bilinm* gecersiz* bulunam* bulunm* hatali* silin* yanlis yoktur yok
        nepoznat* nepostoj* neznan* neobstoj* nevazec* obrisan*
        nezinam* nezinom* neegzist* neeksist* tundmatu* olematu puudub
        neizvest* nesusch* nesush* otsutstv*
        שגויה מחוק
        محذوف مجهول
        unverifiable unheard fremd unauffindbar* unzutreffend* introbable fictif* fictici* spurious
        unclaimed
        perim* obsolet* caduc* nieosiagaln* zaniklo utgangen utgatt puuttu* archaic nobody
        """,
    Word.LEFT: """
        left departed resigned quit fired passed moved deceased died graduated relocated
        ausgeschieden* verlassen weggezogen verzogen verstorben* gekundigt
        parti partie quitte* demenage* decede*
        marchado trasladado falleci* saiu deixou faleceu mudou
        trasferit* dimess* andato lasciato decedut* licenziat*
        vertrokken overleden verhuisd
        odszedl odeszla zmarl* odesel odesla slutat sluttet fratradt gatt
        уволен* уволил* выбыл* ушел ушла покинул* умер* звільнен*
        ayrildi ayrilmistir ayrilmis tasindi
        """,
    Word.NOT: """
        no not none nothing never neither without unable fails failed nobody nowhere lacks nil
        zero
        nicht kein* nie niemals nirgends niemand* ohne
        pas plus aucun* jamais non sans ne personne nul nulle
        ningun* nunca jamas ya nadie sin nao nenhum* nem ninguem sem mais
        nessun* mai senza nemmeno niente
        niet geen nooit nergens zonder
        brak zaden zadn* nigdy bez nikt
        neni nejsou nema nikdo nelze
        inte ej ikke ekki ingen inget ingenting aldrig aldri uten utan hverken
        ei eivat eika mikaan
        nincs nincsen soha
        nu niciun* nicio nici fara
        не нет ни нету никто никогда без невозможно нема немає ні няма
        δεν μη μην χωρις κανενας κανεις ουδεις
        degil* yok* hicbir kimse
        nije nisu ni nav nera pole ega neturi net nyet
        tidak bukan tiada tak khong chua
        אינו אינה לא אין איננו
        غير ليس لا لم
        """,
    Word.NO: """
        no none neither without kein* ohne aucun* sans nul nulle ningun* sin nenhum* sem nessun* senza
        geen zonder brak zadn* zaden bez ingen inget uten utan nincs nincsen niciun* nicio fara
        нет нету нема немає няма καμια κανεις κανενας χωρις hicbir yok* nema nav nera ni tiada net nyet neni
        אין
        """,
    Word.THERE: """
        exist* found know known registered registr* recogni* recorded record records listed list on file
        located locate locatable resolve* match* hosted handled served belong* ours here
        assigned mapped provisioned created member available
        appear* called named such works work working employed lives resid* legal
        deliverable routable answer* trace lookup enrolled issued held kept allocated tied
        bekannt* gefund* vorhanden eingetragen* verzeichn* gefuhrt gefuehrt
        gibt angelegt eingerichtet hinterlegt vergeben zugeordnet zugewiesen erfasst ermittel* gelistet
        gultig* gueltig* zustandig auffind* arbeitet beschaftigt beschaeftigt
        connu* connait connaiss* reconnu* trouv* enregistr* repertori* attribu* affecte* cree*
        figure* present* referenc* recens* inscrit* declar* identif* travaille* appart*
        ouvert* heberg* gere* localis*
        encontr* consta* cadastr* reconoc* reconhec* alta figura* pertene* pertence* asign*
        atribu* hay localiz* hall* conoce* conhec* corresp* trabaj* trabalh* valid* directorio criad*
        cread*
        aparece* dispon* defin* dado
        esist* trovat* risult* riconosc* conosc* assegn* anagrafic* censit*
        corrisp* attestat* lavora* rubrica associat* configur*
        best* gevonden bekend aanwezig geldig* aangemaakt toegekend herkend* voorkomt komt
        vinden werkt werkzaam behoort terug*
        istniej* znalez* znajduj* zarejestr* figuruj* wystepuj* znan* przypisan* prawidl* odnalez*
        pracuje ewidencj* nalez* zidentyf* zalozon*
        najd* eviduj* evidov* znam* platn* pritomn* veden* dohledan*
        finn* find* hitta* kand* kanner kendt* kender kendes kjent* kjenne* gyldig* giltig*
        tilgang* opprett* oprett* skapad* tilknyt* tilhor* jobber arbejder arbetar fundet funnet
        loyd* ole olemassa rekister* tunnet* tunne
        letez* talalh* talalj* ismer* dolgozik regisztr* ervenyes szerepel
        gasi* inregistr* cunoscut* lucreaz*
        найден* зарегистр* числит* значит* известн* обнаруж* известен знаем работает заведен*
        fannst
        такого такои* сущест* знайден* існу* зареєстр* відом* намерен* съществува*
        υπαρχ* βρεθ* εντοπ* καταχωρ* γνωστ* εγκυρ*
        mevcut* kayitli* tanimli* bulun* gecerli* var vardir calis* boyle tanin*
        postoji postoje pronaden* nadjen* naden* obstaja poznat* vazec* pronadjen*
        atrast* zinam* rasta* leitud leitnud egzist* eksist* tuntud
        ditemui dijumpai wujud ditemukan terdaftar dikenal ada ton tim
        suschestv* sushestv* sushchestv* naiden* nayden* zaregistr* takogo takoi takoy
        קיים קיימת נמצא נמצאה מוכר רשום
        موجود موجودة صالح معروف مسجل يوجد
        live living home homed housed maintain* kenn* wohn* fuhr* fuehr* betreut* habite loge domicil*
        recherch* censo vive mora abita woont mieszka bydli bor
        """,
    Word.CLOSED: """
        disabled deactiv* suspend* discontinu* locked closed decommis*
        dormant frozen freeze cancel* archive archived archivad* archivee* archivier* archiviat* archivov*
        retired abandon* revoked lapsed parked sunset shut hibernat*
        deprovision* quarantin* hold barred blocked unmonitored idle ceased mothballed sealed withheld
        defunct offboarded unused unattended unread closure deprecat* passive
        deaktiv* stillgelegt* gesperrt* inaktiv* abgeschalt* geschlossen* abgelaufen* gekundigt*
        gekuendigt* eingefroren* ruhend* aufgelost* aufgeloest* ausgesetzt* abgemeldet* eingestellt*
        abgerufen ausser betrieb blockiert*
        desactiv* ferme* inacti* resili* clotur* clos close bloque* expir* gele gelee geles gelees verrouill*
        radie* coupe*
        desativ* suspens* cerrad* encerrad* inhabilit* deshabilit*
        desabilit* caducad* congelad* inativ* arquivad* baja vencid* clausurad*
        disattiv* sospes* chius* cessat* bloccat* scadut* disabilit* inattiv* dismess* congelat*
        opgeheven gesloten afgesloten gedeactiv* uitgeschakeld geblokkeerd opgezegd verlopen bevroren
        stopgezet opgeschort gearchiveerd
        zablok* zawiesz* wylacz* nieaktywn* dezaktyw* zamkni* wygas* zamroz* zlikwid* zarchiw*
        zrusen* pozastav* neaktivn* uzavr* vypnut* zmrazen* ukoncen* vyprsel*
        avstang* avaktiv* stangd* stangt* stengt* lukk* nedlagt avslut* sparr* sperret sperra*
        opsagt uppsagd* utgatt udlobet avviklet nedlagd*
        suljettu poistettu lukittu passivoitu lakkautettu vanhentunut
        letilt* tiltva felfuggeszt* lezar* zarol* megszun* lejart
        dezactiv* inchis* blocat*
        отключ* заблок* закрыт* неактив* приостанов* замороз* деактив* просроч* вимкнен* закрит* призупин*
        остановлен* аннулир* заморож* ликвидир* спрян*
        απενεργοποι* κλειστ* ανεσταλ* κλειδωμ* ληξ* ανενεργ*
        kapat* kapali* askiya dondur* pasif* devre engellen* kilit* iptal* suresi feshed*
        ugasen* zatvoren* iskljucen* onemogucen* blokiran* ukinjen* zaprt*
        slegts blokets izslegts isjungt* uzdaryt* suletud blokeerit*
        dinonaktif* ditutup digantung dibekukan dinyah* khoa
        zakryt otkluchen* otklyuchen* udalen
        מושבת מושבתת סגור סגורה חסום נעול מוקפא הושבת
        معطل مغلق موقوف محظور مجمد
        ended ending finished wound stopped dead extinct inoperative offline unmanned banned stale
        blackholed
        beendet* eingezogen* entzogen* arrete* finalizad* termine terminee terminat* terminad* conclu*
        zakonczon* ukonczon* beeindigd*
        inoperant* hors beendigt paus* pauz* gepauzeerd wstrzyman* upphord upphort ophort lopetettu
        """,
    Word.ACTIVE: """
        enabled monitored use used service read operational collected
        checked subscri*
        aktiv* freigeschaltet erreichbar empfangt genutzt abgerufen benutzt verwendet gelesen betrieb
        actif utilise* releve* consulte* lue
        activ* ativ* habilit* usa* utiliz* servicio servico vigente recibe recebe
        attiv* uso servizio abilitat*
        actief gebruik* gelezen
        aktywn* uzywan* obslugiw*
        pouziv*
        anvand* brug* bruk*
        kaytossa aktiivinen
        hasznalat*
        актив* используется обслужив* действует
        ενεργ* aktif* etkin* kullanim* aktyvi
        """,
    Word.ROOM: """
        quota* storage space capacity room disk size bytes kb mb gb allowance allotment allocation
        inode* volume kilobytes megabytes gigabytes usage
        speicher* platz kapazitat* kapazitaet* kontingent* grosse groesse postfachgross* grenze limit*
        espace stockage capacite taille place
        espacio almacenamiento capacidad* cuota* tamano espaco armazenamento cota tamanho
        spazio capienza capacita dimension* memoria
        ruimte opslag* capaciteit limiet quotum schijfruimte
        miejsc* pojemnosc* przestrzen*
        misto mista kapacit* kvot* velikost prostor*
        utrymme* plads* plass* lagring* grans*
        tila kiintio* levytila tallennustila
        tarhely* hely meret
        spatiu* capacitate*
        места место квот* лимит* объем* размер* хранилищ* місц* обсяг*
        χωρος χωρο οριο χωρητικοτ*
        kota* alan* kapasite* boyut* sinir*
        vieta* ruum* kuota* ruang*
        مساحة סעה מכסה מכסת מקום نطاق حصة
        """,
    Word.FULL: """
        full fulled filled overflow* overquota overfilled maxed brimming stuffed bursting
        crammed
        voll volle voller uberfull* ueberfuell* uberquota uberlauf* ausgelastet
        plein pleine satur* rempli* debord*
        llen* lotad* chei* repleto desbord* abarrotad*
        pien* satolla intasat* esaurit* ricolma
        vol overvol volgelopen
        peln* przepeln* zapeln* zapch*
        pln* preplnen* zaplnen*
        fullt fulle fyldt overfull* overfyldt proppfull
        taynna taysi
        tele megtelt betelt
        plin plina
        переполн* заполн* полон полна забит* переповнен* заповнен* пълна
        γεματ* πληρες πληρης
        dolu* doldu* dolmus*
        pun puna poln pilns pilna pilnas tais penuh day
        perepolnen* zapolnen*
        מלאה מלא
        ممتلئ ممتلئة
        """,
    Word.SPENT: """
        exceed* reach* over used exhausted spent left beyond above hit maximum max out maxed surpass*
        consumed depleted remaining lacks free lack short shortage
        uberschr* ueberschr* erschopft* erschoepft* erreicht* aufgebraucht* verbraucht* ausgeschopft*
        belegt*
        depass* atteint* epuis* exced* satur* consomme*
        super* agot* esgot* llena* alcanz* ating* insufic* lleg* complet* estour* ultrapass* utilizad*
        esaur* raggiunt* insuff* eccedut* occupat* termin*
        oversch* bereikt* opgebruikt onvoldoende overtref*
        przekrocz* wyczerp* osiagn* brakuje
        prekroc* vycerp* dosazen* dosah* nedostatek
        overskr* slut uppnadd* overstig* opbrugt nadd nadt oppbrukt brukt
        ylitt*
        tullep* elert* kimerult
        depasit* atins* epuizat*
        превыш* исчерп* закончил* достиг* недостаточ* перевищ* вичерпан* кончил*
        υπερβ* εξαντλ*
        asil* asti* doldu* yetersiz* tuken*
        prekorac* dosegen* parsniegt* virsyt* uletatud melebihi habis vuot
        prevys*
        تجاوز نفدت חריגה חרג
        """,
    Word.ELSE: """
        otherthing tenant* domain* host* dns mx server* network* route table backend connection* protocol
        command* helo ehlo syntax message* file* database ip ips relay* record* parameter* service session
        list
        header* option* argument* map ldap* lookup* zone site page link sender* nameserver system*
        attachment*
        body content transport agent issue error id family exchanger* directory machine* macchina maschine*
        group queue template client guide driver module verzeichnis annuaire
        domaene* doman* rechner* netz* verbindung* nachricht* absender* befehl* zertifikat* dienst*
        datenbank* mailserver*
        serveur* hote* reseau* connexion* expediteur* certificat*
        dominio* servidor* red conexion* conexao remitente* mensaje* mensagem rede
        rete conness* messagg* mittent* comand*
        domein* verbinding* bericht* afzender*
        domen* serwer* polacz* wiadomosc* nadawc*
        zprav* spojeni odesilatel*
        meddel* beskjed* avsandar* afsender* avsender* anslutning* forbindelse*
        palvelin* verkkotunnus viesti*
        szerver* tartomany* uzenet*
        сервер* домен* хост* соединен* сообщен* отправител* письм* сет* повідомлен* файл* команд*
        διακομιστ* τομεα* μηνυμ*
        sunucu* etki mesaj* ileti* baglanti*
        """,
    Word.MINE: """
        ourself ournames ip ips sender* blacklist* blocklist* rbl dnsbl
        reputation spam* spf dkim dmarc rdns ptr authenticat* relay* starttls tls ssl helo
        ehlo
        polic* virus* phish* untrusted whitelist* bounce* backscatter callback* callout* harvest*
        attack* abuse* botnet today outside office hours extern* intern* strangers only contacts resubmit
        port privilege*
        permission* permit* allow* authori* confirm* verif* until unless temporar* moment*
        heute aussen nur derzeit voruberg* aktuell aujourd seul* hoy solo oggi vandaag alleen tylko только
        сегодня временно bugun sadece
        sperrliste* richtlin* anmeld* ihre ihr absende* versender* verdacht*
        expediteur* emetteur* votre politique* indesirable*
        remitente* remetente* emisor* lista negra origen origem
        mittent* politic*
        afzender* beleid* uw
        nadawc* polityk* twoj* czarn*
        odesilatel* odosielatel* politik* vas vase
        avsandar* afsender* avsender* lahettaj* felado* expeditor*
        отправител* спам* политик* ваш* черн* відправник* чорн*
        αποστολ* gonderen* gonderici* kara ipniz sizin posiljatel*
        """,
    Word.TRAFFIC: """
        connection* message* mail mails email emails request* recipient* session* transaction* deliver*
        attempt* traffic sending send commands errors load rcpts hits
        verbindung* nachricht* anfrage* empfanger* sitzung* zustellung* zugriff*
        connexion* requete* destinataires envoi* courriels
        conexion* conexo* mensaje* mensag* peticion* solicitud* destinatarios envio* intent* tentativ*
        sesion*
        sessoes correos acessos
        conness* messagg* richiest* destinatari invii
        verbinding* bericht* ontvangers verzoek* sessies
        polacz* wiadomosc* zapytan* odbiorcow prob sesji
        spojen* zprav* pozadavk* pokus* prijemcu
        anslutning* tilkobling* forbindelse* meddel* beskjed* forsog forsok mottagare
        yhtey* viest* kapcsolat* uzenet* conexiun* mesaj*
        соединен* подключен* сообщен* писем запрос* получателеи попыт* сесси* зєднан* єднань повідомлен*
        підключен*
        baglanti* ileti* istek* deneme* oturum*
        addresses
        """,
    Word.MUCH: """
        many much excess* exceed* max limit* quota rate fast quick* often hourly daily minute
        throttl* burst flood* concurren* simultan* parallel allowance pace backoff cap slow overload*
        viele* zuviel* haufig* schnell grenze uberschr* hochst* anzahl gleichzeitig*
        trop nombre depass* rapid* frequen* debit
        demasiad* maxim* superad* exced* muit* frecuen*
        tropp* massim* superat* contemporane* eccess*
        veel limiet* snel te overschr* gelijktijdig*
        zbyt duzo wiele przekrocz* jednoczesn* czesto
        prilis mnoho prekroc* soubezn* casto
        manga mange hogst* maks* ofta ofte grans* snabbt samtidig* overskr*
        liikaa liian tul sok prea multe
        слишком много лимит* превыш* часто максимальн* одновременн* быстро количеств*
        забагато ліміт* надто занадто перевищ*
        cok fazla sinir* sik asil* hizli
        fewer few slower ceiling quotas
        """,
    Word.STRANGE: """
        first new newcomer* stranger* unfamiliar unseen triplet* tuple* postscreen introduc* greet* delayed
        deferral greylist* graylist*
        erstmal* erstkontakt* erster neu neuer graulist* verzoger* verzoeger*
        premier* nouveau* grise*
        nuev* gris nov* cinza cinzenta
        prim* nuov* grigia grigie
        eerste nieuw* grijze grijs
        pierwsz* now* szara szarej szaro* prvni sedy* sede seda
        forst* ny gralist* gra grahlist* ensimmai* elso szurk* gri
        серы* серо* серая впервые первы* нов* сіри* сіро*
        ilk yeni
        postponed postpone premature early knock deferred defer trial
        """,
    Word.AGAIN: """
        again retry retries later return reattempt back requeue queue resend wait come
        erneut wieder* spater nochmal* warten
        reessay* plus tard nouveau retent* renouvel* patient* ulterieur* revenez
        intent* reintent* tarde vuelva espere novamente tente aguarde
        riprov* ritent* tardi attendere
        opnieuw probeer
        ponown* pozniej sprobuj znovu pozdej* zkuste
        igen senare senere prov uudelleen myohemmin ujra kesobb nou incercati
        позже повтор* снова попроб* пізніше спробуй*
        tekrar sonra
        knock once
        """,
    Word.WHILE: """
        overnight tonight tomorrow today monday tuesday wednesday thursday friday saturday sunday weekend*
        christmas xmas easter ramadan carnival holiday* season hours days weeks fortnight minutes
        weihnacht* ostern pfingsten fasching karneval silvester neujahr feiertag* vorlesungsfrei* dienstreise
        montag* dienstag* mittwoch* donnerstag* freitag* samstag* sonntag* tage tagen woche wochen
        minuten heute morgen
        paques fetes fete toussaint lundi mardi mercredi jeudi vendredi samedi dimanche jour jours
        semaine* heures demain nuit
        navidad* carnaval pascua* fiestas festivos lunes martes miercoles jueves viernes sabado dias
        semana* horas manana hoy
        natal pascoa feira amanha hoje
        natale pasqua ferragosto feste festivit* lunedi martedi mercoledi giovedi venerdi giorn* settiman*
        ore domani oggi
        kerst* pasen feestdag* maandag dinsdag woensdag donderdag vrijdag zaterdag zondag dagen week weken uur
        vandaag
        swieta swiat swiateczn* poniedzial* wtorek wtorku srode srody czwart* piatek piatku sobot* niedziel*
        tydzien tygodni* godzin* jutro dzis dzisiaj
        vanoc* velikonoc* svatk* pondel* utery ctvrtek patek nedel* dny dni tyden tydny hodin* zitra dnes
        jul julen juleferie* pask* mandag tirsdag tisdag onsdag torsdag fredag lorda* sondag dagar dage
        dager vecka veckor uge uger uke uker timmar timer imorgon idag
        joulu* paasiai* maanant* tiistai* keskiviik* torstai* perjantai* lauantai* sunnuntai* paiva* viikko*
        viikon viikoksi tunti* tunnin tunniksi huomen*
        bayram* pazartesi carsamba persembe cuma cumartesi gunluk haftalik haftaya saat saatligine yarin
        karacsony* husvet* unnep* hetfo* kedd* szerda* csutortok* pentek* szombat* vasarnap* napig napra hetre
        orara holnap*
        craciun* pastelor luni miercuri vineri sambata duminica zile saptaman* maine
        праздник* рождеств* новогодн* понедельник* вторник* среду среды пятниц* суббот* воскресен*
        дней дня дни дена недел* сутки суток часов часа минут завтра сегодня седмиц* утре
        свята свят понеділ* вівтор* четвер* субот* неділ* тижд* тижн* годин* днів
        χριστουγενν* πασχα γιορτ* δευτερα τριτη τεταρτη πεμπτη παρασκευη σαββατο κυριακη ημερ* εβδομαδ* ωρεσ
        αυριο
        bozic* uskrs* blagdan* ponedje* ponede* utorak cetvrtak petak tjed* sati sutra jutri
        kaled* ziemassvet* jould* savait* valand* stund* nadal*
        hari minggu senin selasa rabu kamis jumat sabtu besok lebaran
        ngay
        יום ימים שבוע מחר يوم أيام اسبوع غدا
        """,
    Word.SINCE: """
        since after ago once seit nach vor depuis apres desde tras despues dopo dal fa sinds geleden
        temu sedan efter siden etter sitten jalkeen beri ota utan acum dupa απο μετα с після
        после назад след
        inactiv* inaktiv* inativ* inattiv* neaktiv* nieaktywn* неактив* ανενεργ* inactief unused unattended
        ungenutzt* inutilis* nieuzyw* nepouziv* kullanilma*
        """,
    Word.AT: """
        on at in within among auf bei beim im unter sur dans chez en no na nel sul su presso op bij pa hos
        ved
        w u ve v на в у под στο στον sto ston
        """,
}
"""What words stand for; a word may stand for more than one thing."""

PHRASES: Final = {
    Word.NOBODY: r"""
        (?:not|never) (?:have|had|know|got|host|keep|serve) (?:that|this|such)(?: an?)? (?:one|name)\b
        not (?:have|know) (?:any )?(?:that|this|such)(?: an?)? (?:person|user|box|man|woman|colleague)\b
        (?:have|know) (?:no|nobody|no one|none) (?:\w+ )?(?:such|(?:of|by) that name|called|named|like that)\b
        (?:but|only) not this one\b
        (?:not|never) (?:ring|rings) (?:a|any|our) bells?\b
        never (?:been|had) (?:an? )?(?:such )?(?:user|account|mailbox|person|address)\b
        none of (?:them|us|these) (?:knows?|has|recogni[sz]es?)\b
        nu (?:avem|exista) niciun\w* (?:\w+ ){0,3}?(?:cu|la) (?:aceasta|acest) (?:adresa|nume)
        pas de \w+ (?:chez nous|ici|de ce nom)\b
        (?:not|never) (?:host|keep|handle|take|accept)s? (?:\w+ )?for (?:that|this) (?:person|user|name)
        (?:not|never|nobody|no one) (?:\w+ )?heard of (?:them|him|her|that|this|anybody|anyone|such)\b
        (?:kein\w*|nie) (?:\w+ )?von (?:ihm|ihr|dieser person) gehort\b
        कोई ऐसा (?:\S+ )?नहीं
        ऐसा कोई (?:\S+ )?नहीं
        (?:nothing|nobody|no one|none) (?:is |lives )?(?:at|under|behind|by|with) (?:this|that|theaddress)\b
        (?:she|he|they) (?:has |have )?(?:retired|resigned|departed)\b
        (?:she|he|they) (?:has |have )?left(?: us\b| here\b| in \d| on \d| ?[.,;)]| ?$)
        (?:address|mailbox|account|name) (?:is|was|has been) (?:taken|struck|wiped|erased) (?:out|off|from)\b
        (?:aucune?|personne) (?:\w+ ){0,6}?(?:porte|repond a) ce nom
        (?:niemand\w*|kein\w*) (?:\w+ ){0,6}?(?:heisst so|dieses namens|mit diesem namen)
        (?:nadie|ningun\w*) (?:\w+ ){0,6}?(?:se llama asi|con (?:ese|este) nombre)
        (?:ninguem|nenhum\w*) (?:\w+ ){0,6}?(?:se chama assim|com (?:esse|este) nome)
        nessun\w* (?:\w+ ){0,6}?(?:si chiama cosi|con (?:questo|quel) nome)
        (?:niemand|geen) (?:\w+ ){0,6}?(?:heet zo|met (?:die|deze) naam)
        ingen (?:\w+ ){0,6}?(?:heter (?:sa|det)|hedder (?:sadan|det)|(?:med|av) dette? na\w+)
        (?:nikoho|nikogo|никого|senkit|kimseyi|ketaan) (?:\w+ )?(?:tak\w+|ilyen|boyle|sellaista|nimis\w+)\b
        (?:nikoho|nikogo|никого|tak\w+) (?:\w+ ){0,2}?(?:nemame|nezname|nie mamy|nie znamy|не знаем)\b
        (?:такого|таких|такои) (?:(?:у|в) нас )?(?:нет|нету|нема\w*|не знаем|не значится)\b
        (?:нет|нету|нема\w*) (?:у|в) нас так\w+
        no idea who (?:that|this|he|she|they)\b
        (?:is|are|thats) not one of (?:them|us|ours|my|our)\b
        (?:ex|former)[- ](?:employee|student|colleague|member|staff|pupil|customer|user|worker)
        (?:den|die|diese[nr]?|dezen?) kennen (?:wir|we|wij) (?:\w+ )?ni(?:ch|e)t\b
    """,
    Word.NO: r"""
        (?:nie ma|nie posiada|non abbiamo|no tenemos|nao temos|nie mamy|nemame|nu avem|nimamo|nemamo)\b
        не имеем\b
        n (?:avons|a) (?:pas|plus)\b
        (?:hebben (?:wij|we) niet|har vi (?:ikke|inte|ej))(?= ?$)
        (?:is|are|was) not (?:an?|one of our|our) (?:\S+ )?(?:address|account|user|mailbox|customer|member)\b
        not (?:within|inside|among) (?:our|the)\b
        not (?:this|that) one\b
        not (?:correctly|properly|well) (?:formed|formatted|spel\w+)\b
        no (?:\w+,? ){1,5}with (?:such an?|that|this) (?:address|name)\b
        not (?:an? )?part of (?:our|this|the)\b
        no (?:mapping|match|entry|record)\b
        gehor\w+ (?:\w+ )?nicht (?:mehr )?zu (?:uns|unser\w+)\b
        так\w+ (?:\w+ ){0,5}?не было\b
    """,
    Word.GONE: r"""
        dejo (?:la|esta|nuestra) (?:empresa|compania|institucion|organizacion|escuela|universidad)\b
        (?:not|never) (?:in|on|among) (?:our|the|any) (?:books?|files?|records?|rolls?|roster|payroll)\b
        er ekki (?:til|skrad\w*)\b
        nuk (?:ekziston|gjendet|njihet)\b
        ez da (?:existitzen|aurkitu|ezagutzen)\b
        den (?:yparx|yparch|iparx|iparch|vreth|brethi)\w+
        मौजूद नहीं
        नहीं मिला
        no longer (?:with|here|there|a |an |part|works?|employed|exists?|on|at|in our)
        (?:nicht (?:mehr|langer)|niet (?:meer|langer)) (?:bei uns|bij ons|im (?:hause?|unternehmen)|in dienst)
        (?:ya no|nao|non|n) (?:\w+ )?(?:mais |piu |plus )?(?:con nosotros|conosco|con noi|da noi|chez nous)
        moved (?:away|on)
        (?:points?|leads?|goes|resolves?|maps?) (?:to )?(?:nothing|nowhere|nobody)
        (?:non fa(?:nno)?|ne fait) (?:plus |piu )?part(?:e|ie)\b
        (?:no forma|nao faz(?:em)?) (?:mais )?parte\b
        gehor\w+ (?:\w+ ){0,3}?nicht mehr
        (?:haben|fuhren|kennen) wir (?:\w+ ){0,2}?nicht
        wir (?:haben|fuhren|kennen) (?:\w+ ){0,3}?nicht
        (?:0|zero|no|without) (?:\w+ )?(?:match\w*|results?|rows?|users?|hits?|entr\w+)
        (?:kein\w*|aucun\w*|sin|nessun\w*|geen|brak) (?:\w+ )?(?:treffer|r[ei]sulta[dt]\w*|entr\w+|wynik\w*)
        (?:nobody|no ?one|not? any(?:body|one)|none) (?:\w+ ){0,3}?(?:name|address|here)
        (?:personne|niemand\w*|ingen) (?:\w+ ){0,3}?(?:nom|namens?|navn|adress\w*|hier|chez nous|her)
        (?:nadie|ninguem|nessuno) (?:\w+ ){0,3}?(?:nombre|nome|direccion|aqui|qui)
        (?:nikt|nikdo) (?:\w+ ){0,3}?(?:nazw\w+|jmen\w+|tu|zde)
        (?:no|any) (?:home|place|slot|entry|record|row|trace)
        """,
    Word.CLOSED: r"""
        no longer (?:in use|in service|active|accept\w*|receiv\w*|available|monitored|read|checked|used)
        (?:accept|receiv|tak)ing (?:\w+ )?no more\b
        (?:switched|turned|signed|shut|locked|taken|written) off
        shut down
        (?:switched|turned|shut) (?:it|this|them) off
        taken down
        out of (?:service|use)
        (?:put|placed|is) on (?:hold|ice)
        in (?:quarantine|suspension|arrears)
        past due
        put to sleep
        non-?payment
        unpaid
        hors service
        fora de (?:uso|servico)
        fuera de servicio
        fuori (?:uso|servizio)
        buiten gebruik
        ausser betrieb
        nicht mehr (?:in|aktiv|genutzt|verwendet|abgerufen|betreut)
        wylaczon\w* z uzytku
        de baja
        dad[oa] de baja
        kullanim disi
        ute? av (?:drift|bruk)
        ur bruk
        poza uzyciem
        вне обслуживания
        (?:fel|le) van (?:fuggesztve|zarva|tiltva)
        """,
    Word.FULL: r"""
        100 ?%
        over quota
        uber (?:de[mnr] )?(?:kontingent|quota|limit)
        (?:mailbox|maildir|inbox) (?:is |has )?(?:over|past|at|exceed\w*|reached) (?:\w+ )?(?:limit|capacity)
        speicher\w* (?:\w+ ){0,2}?(?:uberschr\w+|ueberschr\w+|erschopft|ausgeschopft|verbraucht)
        no (?:more )?(?:room|space)
        out of (?:room|space|storage|quota|disk)
        (?:mailbox|inbox|box|account) (?:is |has been )?used up
        (?:0|zero|no) (?:bytes?|kb|mb|free)
        (?:can not|will not|does not|unable to|no \w+(?: \w+)?) (?:hold|store|fit|keep)
        clean(?:ed)? (?:out|up)
        make room
        free (?:up )?(?:some )?(?:space|room)
        grown (?:beyond|over|past)
        (?:al|am|au|a la|at its|at the) limit\w* (?:\w+ )?(?:capa\w+|kapa\w+|storage)
        no (?:admite|acepta|caben|cabe) mas
        """,
    Word.STRANGE: r"""
        (?:not|never) (?:yet )?(?:seen|met|heard|known|been introduced)
        unknown (?:correspondents?|triplets?)
        for the first time
        new here
        first time
        waiting (?:time|period)
        never (?:had|got|received|seen|heard)
        postpon\w+
        (?:once|until|when) (?:the )?\w+ (?:has|is|have) (?:over|passed|elapsed)
        too (?:early|soon)
        premiere connexion
        erstkontakt
        primera vez
        primeira vez
        prima volta
        eerste keer
        """,
    Word.WHILE: r"""
        (?:wird|wordt|bliver|blir) (?:\S+ ){0,2}?(?:(?:re)?aktiv|freige|vrijge|genab|gjenap)
        (?:sera|verra) (?:\S+ ){0,2}?(?:(?:re|ri)?(?:activ|ativ|attiv)|debloqu|liberad|desbloq|sblocc)
        (?:zostanie|bude|будет|буде) (?:\S+ ){0,2}?(?:(?:re)?akt[iy]w|odblok|разблок|розблок)
        (?:freischaltung|deblocage) (?:folgt|dans)
        (?:reactivara|habilitara|desbloqueara) el \d
        """,
    Word.SINCE: r"""
        (?:19|20)\d\d\b
        (?:office|business|working|opening|service) hours
        (?:is|are|will be) (?:kept|retained|stored)
        """,
    Word.MINE: r"""
        your (?:ip|host|server|domain|address|mail ?server|network|isp|provider|connection|system|client)\b
        your (?:account|login|password)\b
        (?:votre|vos) (?:ip|serveur|adresse|domaine|compte)
        (?:su|tu|seu|sua|suo|uw) (?:ip|servidor|server|dominio|domein)
        (?:su|tu|seu|sua|suo|uw) (?:direccion|cuenta|conta|endereco|indirizzo|adres)
        """,
}
"""Words that stand for something together: a pattern a line."""

PLAIN: Final = """
    the this that these those which who whom whose what why how there she they him her them his its their our
    are was were been being has have had having does did done can could may might must shall should will would
    for from with and but nor than then because due about into onto under via per off down also too just very
    more most longer any some all other another one both each same own either therefore when where already
    currently sorry please thank hello dear regret unfortunately rejected refused returned accepted accepting
    receive receives receiving accept accepts undeliverable undelivered unavailable permanent permanently said
    says reply status state reason reasons action taken time tried trying try reads marked set put switched
    turned flagged remains became made told asked writing wrote write contact call phone form information
    details see reject rejects example com org local remote provider administrator* admin administration
    administrative* management company organi* firm university school college customers users
    holder owners payment payments paid unpaid bill bills fees invoice* nonpayment year years month
    months breach violat* term terms condition conditions misuse* fraud* stolen reported security order
    wish death heirs contract* agreement licen* logged access accessed march april june july
    august september october december exception process further last former behalf you your yourself yet long
    extended learn sign signed usersearch behind means denied smtp auth required document rejection target
    ever forever opened reopened end services incoming automatically post case move cause dispatch emailing
    mailing emailed way ways psmtp gsmtp esmtp code number numbers sends anymore take takes taking get gets
    ask asking different alternate alternative inform informed informs notify afraid letter letters refuse
    refuses holders written spoken
    der die das den dem des ein eine einen einem einer eines ist sind war wurde wurden worden wird werden hat
    haben sein von vom zum zur und oder aber auch mit fur fuer als aus dieser diese dieses diesem diesen sie
    wir uns leider mehr hier bitte grund wegen aufgrund durch infolge verstoss* missbrauch* nichtzahlung
    zahlung* verwaltung vertrag* wunsch antrag monat* jahr* angenommen nimmt entgegen dauerhaft endgultig
    unternehmen sechs zwei zurzeit gegenwartig kann konnen annehmen annimmt nehmen akzeptiert zustellen
    zugestellt wege weg wenden selbst hatte deren dessen
    les une aux est sont ete etait sera cet cette ces elle qui que pour par car son ses nous suite raison
    defaut paiement abus mois ans annee* deux administrateur lettres demande contrat actuellement recoit
    recoivent recevoir accepte acceptent courrier vos veuillez contacter celui peut
    los las una unos del han sido fue esta estan este esto ese esa por para con sus nos mas falta pago impago
    administrador postal meses anos ano dos encuentra motivo causa debido contrato actualmente admite admiten
    acepta aceptan recibir recibiendo puede pueden tiene contacte contactar otro otra medio
    uma pelo pela foi esse essa seu sua pagamento dois dada atualmente aceita aceitam receber pode tem outro
    meio contate
    gli uno della dello dei dalla era stato stata stati sono questo questa quel che piu mancato inutilizzo
    amministratore mesi anni gestore contratto attualmente riceve ricevere accetta accettare puo contattare
    altro modo tramite
    het een van zijn werd wordt deze dit dat hij zij wij ons voor met aan door wegens vanwege meer wanbetaling
    misbruik beheerder maanden jaar thans ontvangt ontvangen aanneemt neemt accepteert kan manier
    oraz lub jest byl byla bylo zostal zostala zostalo ten tego tej przez dla powodu braku roku lat miesiec*
    umowy obecnie aktualnie przyjmuje przyjmowac odbiera poczty poczte moze skontaktuj inny sposob
    nebo jsou tento tato toto pro kvuli spravce* let mesic* dobu soucasnosti soucasne aktualne
    nyni prijima prijmat neprijima prijimat postu posty muze jinak
    och eller blev blivit har hade det denne dette denna detta fra fran till til med som att oss pga grunn
    manad* maned* ars aret missbruk skrev narvarande nuvarande tar tager mottar modtar
    mottager emot imod beskeder nogen annat satt
    veya bir icin ile tarafindan nedeniyle olarak edildi edilmistir alindi alinmis* birakildi yonetici*
    hareketsizlik yil gecen disi halen kabul etmiyor etmemektedir etmez almiyor
    или это этот эта эти она оно был была было быль для запись администратор* причин* связи неуплат*
    неиспользован* нарушен* месяц* год* настоящее настоящии время данныи момент сеичас принимает
    принимать получает получать почту больше может свяжитесь
    лет його цеи був була було через або запис адміністратор* язку несплат* наразі зараз даний приимає
    приимати отримує пошту листи більше
    tai oli ovat tama taman sen joka etta koska johdosta toimesta yllapi* kuukau* vuo* kayttamattom*
    vastaanota postia tassa nykyisin talla hetkella vastaan vastaanottaa
    egy ezt azt ben ban miatt altal volt lett honap* rendszergazd* adminisztrator* fel fuggesztve
    zarva jelenleg fogad leveleket levelet tud
    sau sunt fost ale acest aceasta acel din prin pentru catre cauza neplat* ani prezent accepta
    poate
    και του τησ τον την των για εχει ειναι ηταν αυτοσ αυτη λογω διαχειριστ* μην* χρον* αδρανει* ετ* στιγμη
    δεχεται λαμβανει μπορει πλεον
    ili bio bila bilo ovaj ova ovo taj zbog neplacan* mjesec* mesec* godin* trenutno poste poruke
    sprejema prejema sporocil
    vai bija sis tas yra buvo kad siuo metu priima laisku vestules pasta hetkel vota vastu kirju
    dan atau ini itu adalah telah sudah oleh karena untuk dari pada yang akan anda bulan tahun menerima pesan
    surat lagi dapat kini
    hoac duoc boi cho cua nguoi dung nay khoan quan tri vien nhan thu nam thang hien tin
    على إلى هذا هذه لان بسبب ידי היא הוא
    januar* februar* marz mars juin juli juillet aout septembr* oktober octobre decembr* janvier fevrier avril
    enero febrero marzo abril mayo junio julio septiembre octubre diciembre janeiro fevereiro maio junho julho
    setembro outubro dezembro gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre mei
    augustus
    prolong* begaran anmodning onsk* wens pedido durante pendant avant informazioni zyczeni* zadost
    prani* volejte просьб* желани* владел* прохання власник* pyynnosta keres* ugyfel* cererea
    musteri* istegi uzerine daha acilmayacak alamaz αιτημα* πελατ* zahtjev* zahtev* permintaan yeu
    cau
    rechnung* bezahl* verwende* benutz* nutzen andere* laenger* nutzung halter*
    ausgeschied* verlass* regeln nutzungsbeding* bedingungen betrieben loschung ruckstand
    impay* reglement depart* titulaire* client* utilisation longue* longtemps regles
    hace tiempo largo condiciones titular* propietari* incumplimiento
    fatura* tempo longo condicoes inadimplenc* violacao
    fattur* lungo condizioni titolar* cessazione disdett* violazione
    rekening* factuur* betal* klant* eigenaar* tijd voorwaarden opzegging vertrek
    faktur* rachun* zaplac* klient* wlasciciel* dlug* czasu regulamin* naruszen* nieoplac* rezygnacj*
    duvod* nezaplac* neuhraz* vlastnik* majitel* dlouh* porusen* podmin*
    utebliven regning* kund* agare* ejer* eier* lang* tid villkor vilkar manglende brud brott
    laskun lasku omistaja* asiakka* pitkaan ehtojen rikkom*
    odeme* odenme* yapilma* sahibi* uzun sure suredir sart* ihlal*
    nemfizet* szamla* dijhatral* tulajdonos* hosszu ideje szerzod* megsert* feltetel*
    factur* proprietar* mult timp incalcar* conditii*
    длительн* долг* оплат* задолжен* счет* договор* правил* услов* увольнен*
    тривал* заборгован* рахун* клієнт* умов* заяв*
    πληρωμ* εξοφλησ* ιδιοκτητ* αιτησ* παραβιασ* ορων συμβολαι*
    racun* placan* vlasnik* dugo vrijeme uvjet* uslov* krsen* lastnik* neplacil*
    tagihan* pembayaran* pemilik* lama pelanggaran ketentuan
    thanh toan chu huu pham dieu lau
    weil denn darum daher deshalb uber etwa parce puisque donc environ porque pues asi perche poiche quindi
    circa
    omdat want dus ruim poniewaz gdyz ponad wiec protoze nebot vice fordi eftersom derfor cunku dolayi mert
    tobb
    deoarece peste yli потому поскольку более свыше тому понад διοτι επειδη jer vise
    forwarding normas termos kural* aykiri regelen regels zasad pravidel regler saantoj* szabaly*
    regulil* κανονων pravila peraturan
    billing betaal* eigentum* proveedor provedor fornitore fournisseur dostawc* leverancier solicitacao
    prosb* misbrug* visszaeles* proprietaire agb полугода
"""
"""Words that say nothing by themselves, and why a mailbox is closed for good: unpaid, unused, as wished."""
