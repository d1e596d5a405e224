"""The reply table: every rule in the order it is tried; the first that applies decides.

The order is the rule that protects the innocent: first what cannot be about the mailbox (the stage, our own
name), then rates and greylisting, then refusals of us, and only what is left may speak of the mailbox.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mailsift.pipeline.facts import Answer
from mailsift.pipeline.replies import vocabulary as words
from mailsift.pipeline.replies.languages import LANGUAGES, UNSPACED
from mailsift.pipeline.replies.meaning import Meaning
from mailsift.pipeline.replies.patterns import AnyOf


class Stage(StrEnum):
    """The step of the SMTP session a reply answers."""

    CONNECT = "connect"
    BANNER = "banner"
    EHLO = "ehlo"
    STARTTLS = "starttls"
    MAIL = "mail"
    RCPT = "rcpt"


OURSELVES: Final = "our-own-name"
"""Stands in a reply's simplified text where it names our address or our HELO name."""

MAILBOX: Final = "the-address"
"""Stands in a reply's simplified text where it quotes an email address."""


@dataclass(frozen=True, slots=True)
class ReplyRule:
    """One rule; all conditions must hold.

    Attributes:
        id: stable name, shown in the evidence.
        codes: prefixes of the three-digit code, parted by blanks ("4 5", "252"); "0" is a dropped connection
            and "" any code.
        stages: where in the session the rule applies.
        enhanced: pattern for the whole "subject.detail" of RFC 3463 ("1.1"); "" = not looked at. The class
            digit is left out: it repeats the code, and where they disagree the code counts,
            and an enhanced code about an address (X.1.X) does not.
        text: pattern searched in the simplified text (classifier.simplify); "" = not looked at.
        unless: the rule does not apply where this is found in the simplified text; "" = nothing.
        reason: why this may be concluded, for people.
        means: what the words have to mean where no wording is known; None = not looked at.
    """

    id: str
    answer: Answer
    codes: str
    stages: frozenset[Stage]
    enhanced: str
    text: str
    unless: str
    reason: str
    means: Meaning | None = None


_ANY: Final = frozenset(Stage)
_RCPT: Final = frozenset({Stage.RCPT})
_BEFORE: Final = _ANY - _RCPT
_RULE: Final = ReplyRule

# fmt: off
RULES: Final = (
    # id, answer, codes, stages, enhanced code, words, unless; why

    # What the code alone decides.
    _RULE("accepted-unverified", Answer.UNCLEAR, "252", _RCPT, "", "", "",
          "RFC 5321 section 3.5.3: 252 takes the mail but says that the mailbox was not verified."),
    _RULE("accepted", Answer.ACCEPTED, "2", _RCPT, "", "", "",
          "RFC 5321 section 4.2.1: a 2yz reply accepts the recipient, 251 by forwarding."),
    _RULE("dropped", Answer.TEMPORARY, "0", _ANY, "", "", "",
          "The connection ended without a reply."),

    # About us, whatever else is said.
    _RULE("before-rcpt-permanent", Answer.REFUSED_US, "5", _BEFORE, "", "", "",
          "No recipient had been named yet, so the refusal is about us."),
    _RULE("names-us", Answer.REFUSED_US, "5", _ANY, "", OURSELVES, "",
          "The permanent refusal names our own address or host name."),

    # What is said of one mailbox in a way of its own.
    _RULE("no-international-addresses", Answer.NOT_ASKABLE, "5", _RCPT, r"6\.7", "", "",
          "RFC 6531 X.6.7: the server takes no address that is not ASCII."),
    _RULE("exchange-directory", Answer.NOT_FOUND, "5", _RCPT, r"4\.1", words.EXCHANGE_DIRECTORY, "",
          'Exchange Online\'s 5.4.1 "Access denied" is how its directory says that it has no such user.'),

    # Greylisting names itself; a full mailbox may look like a rate.
    _RULE("greylisted", Answer.GREYLISTED, "4 5", _ANY, "", words.GREYLISTING, "",
          "The reply speaks of greylisting: come back later, from the same address."),
    _RULE("full-code", Answer.FULL, "4 5", _RCPT, r"2\.2", "",
          AnyOf(words.QUOTA_UNKNOWN, words.NOT_FOUND_OUT, words.DIRECTORY_AWAY),
          "RFC 3463 X.2.2 is a full mailbox."),
    _RULE("full-of-messages", Answer.FULL, "4 5", _RCPT, "", words.FULL_OF_MESSAGES, words.CLIENT,
          "The reply says that the mailbox holds too many messages."),

    # Later: rates and limits.
    _RULE("rate", Answer.RATE_LIMITED, "4 5", _ANY, "", words.RATE, "",
          "The reply speaks of how much or how fast we send, or the mailbox receives."),
    _RULE("limit", Answer.RATE_LIMITED, "4 5", _ANY, "", words.LIMIT, words.STORAGE_OR_LENGTH,
          "The reply speaks of a limit that is not the mailbox's storage."),

    # About us.
    _RULE("names-us-for-now", Answer.REFUSED_US, "4", _ANY, "", OURSELVES, "",
          "The temporary refusal names our own address or host name, and neither a rate nor greylisting."),
    _RULE("directory-away", Answer.UNCLEAR, "5", _RCPT, "", words.DIRECTORY_AWAY, words.US,
          "What the server asks for its mailboxes is away or has failed, so it has denied none."),
    _RULE("closed-awhile", Answer.TEMPORARY, "5", _RCPT, "", words.CLOSED_ANYHOW, words.US,
          "The mailbox is closed for some hours or days, so nothing is known of it for later.",
          Meaning.AWHILE),
    _RULE("closed-and-more", Answer.UNCLEAR, "5", _RCPT, "",
          AnyOf(words.CLOSED_ANYHOW, words.TAKES_NO_MAIL, *map(words.closed_unspaced, UNSPACED)),
          AnyOf(words.US, words.FULL, words.TEMPORARILY),
          "The mailbox is closed, and for how long or to whom may stand in the words we do not know.",
          Meaning.CLOSED_AND_MORE),
    _RULE("mailbox-blocked", Answer.DISABLED, "5", _RCPT, r"2\.1", words.BOX_CLOSED,
          AnyOf(words.NOT_THE_CLOSED_MAILBOX, words.FULL),
          "RFC 3463 X.2.1 for a mailbox that is blocked or inactive; of ours nothing is named."),
    _RULE("closed-for-a-reason", Answer.DISABLED, "5", _RCPT, "", words.CLOSED_FOR_A_REASON,
          AnyOf(words.NOT_CLOSED_FOR_A_REASON, words.FULL, words.FULL_LOCALIZED, words.QUOTA_LOCALIZED),
          "This mailbox is closed, and the other words only tell why: of ours nothing is named."),
    _RULE("no-such-mailbox-at-once", Answer.NOT_FOUND, "5", _RCPT, r"1\.1", words.UNKNOWN_AT_START,
          AnyOf(words.SENDER, words.LISTED),
          "RFC 3463 X.1.1 and a first sentence that says nothing else; the next ones explain."),
    _RULE("recipient-refused-by-name", Answer.NOT_FOUND, "5", _RCPT, "", words.REFUSED_BY_NAME, words.LISTED,
          "qmail's badrcptto and its like: the server names this recipient as one that takes no mail."),
    _RULE("block-list", Answer.REFUSED_US, "4 5", _ANY, "", words.BLOCK_LIST, "",
          "The reply speaks of a block list or of our reputation."),
    _RULE("bad-sender-code", Answer.REFUSED_US, "4 5", _ANY, r"1\.[78]", "", "",
          "RFC 3463 X.1.7 and X.1.8 are about the sender's address."),
    _RULE("sender", Answer.REFUSED_US, "4 5", _ANY, "", words.SENDER, "",
          "The reply is about our sender address; any mailbox it calls unknown is the sender's."),
    _RULE("our-host", Answer.REFUSED_US, "4 5", _ANY, "", words.CLIENT, "",
          "The reply is about our host: its address, its name or its network."),
    _RULE("relay-for-nobody", Answer.NOT_FOUND, "5", _RCPT, words.NO_POLICY_CODE, words.RELAY_FOR_NOBODY,
          AnyOf(words.OURS, words.CONTENT, words.LISTED),
          "The server would have to relay because it has no such mailbox itself."),
    _RULE("null-mx", Answer.NOT_FOUND, "556", _RCPT, r"1\.10", "", "",
          "RFC 7505 section 4: 556 with X.1.10 is a domain that takes no mail for anybody."),
    _RULE("proof-of-identity", Answer.REFUSED_US, "4 5", _ANY, "", words.AUTHENTICATION, "",
          "The server wants authentication or encryption, or will not relay for us."),
    _RULE("authentication-code", Answer.REFUSED_US, "530 534 535 538", _ANY, "", "", "",
          "RFC 4954: 530, 534, 535 and 538 ask the client to authenticate or encrypt."),
    _RULE("host-takes-no-mail", Answer.REFUSED_US, "521", _ANY, "", "", words.ABSENT,
          "RFC 7504: 521 is a host that takes no mail, from us or from anybody."),
    _RULE("content", Answer.REFUSED_US, "4 5", _ANY, "", words.CONTENT, "",
          "The reply judges the message or the way it is sent; no message was sent."),

    # The mailbox is full.
    _RULE("full", Answer.FULL, "4 5", _RCPT, "", words.FULL, words.NOT_FULL,
          "The reply speaks of the mailbox's quota or storage."),
    _RULE("full-somehow", Answer.FULL, "4 5", _RCPT, "", words.FULL_LOOSELY, words.NOT_FULL_LOOSELY,
          "One sentence speaks of the mailbox, its space, and that there is none left."),
    _RULE("full-languages", Answer.FULL, "4 5", _RCPT, "",
          AnyOf(words.FULL_LOCALIZED, words.QUOTA_LOCALIZED, *map(words.full_unspaced, UNSPACED)), "",
          "The reply says in another language than English that the mailbox is full."),

    # Trouble that passes.
    _RULE("server-trouble", Answer.TEMPORARY, "4", _ANY, r"[34]\.\d+", "", "",
          "RFC 3463 X.3.X and X.4.X: the system or the network has trouble, not the mailbox."),
    _RULE("server-error-words", Answer.TEMPORARY, "4", _ANY, "", words.SERVER_TROUBLE, "",
          "The server speaks of trouble of its own."),
    _RULE("rate-code", Answer.RATE_LIMITED, "4", _ANY, r"7\.(?:0|28|[567]\d\d)", "", "",
          "4.7.0, 4.7.28 and 4.7.500 to 4.7.799 are what large providers answer to a rate or a reputation."),
    _RULE("greylisting-manner", Answer.GREYLISTED, "4", _RCPT, "", words.GREYLISTING_MANNER, "",
          "A temporary refusal that asks for another try after a while is how greylisting speaks."),
    _RULE("passing-despite-code", Answer.TEMPORARY, "5", _RCPT, "", words.TEMPORARILY,
          r"\bservice refused?\b",
          "The code is permanent, but the words say that it will pass."),

    # The server could not find out.
    _RULE("network-trouble", Answer.UNCLEAR, "5", _RCPT, "", words.NETWORK_TROUBLE, "",
          "The server could not reach the one behind it, so it does not know the mailbox either."),

    _RULE("not-found-out", Answer.UNCLEAR, "5", _RCPT, words.NO_POLICY_CODE, words.NOT_FOUND_OUT, "",
          "The server does not know or does not tell, or sends us to one that knows."),
    _RULE("strangers", Answer.REFUSED_US, "5", _RCPT, "", words.STRANGERS, "",
          "The recipient takes no mail from those he does not know, and we are none of them."),

    # The mailbox is closed.
    _RULE("account-disabled-code", Answer.DISABLED, "5", _RCPT, r"7\.13", "",
          AnyOf(words.US, words.OURS),
          "RFC 5248 X.7.13 is a user's account that is disabled."),
    _RULE("disabled", Answer.DISABLED, "5", _RCPT, words.NO_POLICY_CODE, words.CLOSED,
          AnyOf(words.CLOSED_TO_SOME, words.OUR_ALLOWANCE, words.OUR_BOX, r"\bbounces? (?:to|for)\b"),
          "The reply says that the mailbox is closed."),
    _RULE("disabled-5.7", Answer.DISABLED, "5", _RCPT, "", words.CLOSED,
          AnyOf(words.NOT_ONLY_THE_MAILBOX, words.CLOSED_TO_SOME),
          "The same words with a policy code count where the reply says nothing else."),
    _RULE("disabled-code", Answer.DISABLED, "5", _RCPT, r"2\.1", words.TAKES_NO_MAIL,
          AnyOf(words.NOT_THE_MAILBOX, words.CLOSED_TO_SOME),
          "RFC 3463 X.2.1 with words that say the mailbox takes no mail."),
    _RULE("deleted-languages", Answer.NOT_FOUND, "5", _RCPT, r"1\.(?:1|10)", words.DELETED_LOCALIZED,
          words.NOT_THE_BOX_LOCALIZED,
          "RFC 3463 X.1.1, and the same sentence says of the mailbox that it was deleted."),
    _RULE("disabled-languages", Answer.DISABLED, "5", _RCPT, words.NO_POLICY_CODE, words.CLOSED_LOCALIZED,
          words.NOT_THE_BOX_LOCALIZED,
          "The reply says in another language than English that the mailbox is closed."),
    _RULE("disabled-code-languages", Answer.DISABLED, "5", _RCPT, r"2\.1", words.BLOCKED_LOOSELY_LOCALIZED,
          words.NOT_THE_BOX_LOCALIZED,
          "RFC 3463 X.2.1, and the same sentence says of the mailbox that it is closed."),
    *(_RULE(f"disabled-{language.id}", Answer.DISABLED, "5", _RCPT, "", words.closed_unspaced(language),
            words.other_unspaced(language), f"The reply says in {language.name} that the mailbox is closed.")
      for language in UNSPACED),

    # The mailbox is not there.
    _RULE("something-else-missing", Answer.UNCLEAR, "5", _RCPT, "", words.SOMETHING_ELSE_MISSING, "",
          "Something is not there, but it is a domain, a host or a table of the server and not the mailbox."),
    _RULE("no-such-mailbox", Answer.NOT_FOUND, "5", _RCPT, words.NO_POLICY_CODE, words.ABSENT,
          AnyOf(words.RULE, words.OURS, words.CONDITION),
          "The reply says that the mailbox, its user or its address does not exist."),
    _RULE("no-such-mailbox-5.7", Answer.NOT_FOUND, "5", _RCPT, "", words.ABSENT,
          words.NOT_ONLY_THE_MAILBOX,
          "The same words with a policy code count where the reply says nothing else."),
    _RULE("unroutable", Answer.NOT_FOUND, "5", _RCPT, "", words.UNROUTABLE, "",
          "Exim's words for an address that no router of its own accepts."),
    _RULE("not-local", Answer.NOT_FOUND, "551", _RCPT, "", words.OF_SOMEBODY, words.NOT_THE_MAILBOX,
          "RFC 5321 section 3.4: 551 is a user who is not here."),
    _RULE("opensmtpd-expansion", Answer.NOT_FOUND, "524", _RCPT, r"2\.4", words.OF_SOMEBODY,
          words.NOT_THE_MAILBOX,
          "OpenSMTPD answers 524 5.2.4 when an address expands to no user of its own."),
    _RULE("domain-closed", Answer.DISABLED, "5", _RCPT, "", words.DOMAIN_CLOSED, words.NOT_THE_MAILBOX,
          "The domain that the mailbox is in is closed, and the mailbox with it."),
    _RULE("mailbox-unavailable", Answer.NOT_FOUND, "5", _RCPT, "", words.UNAVAILABLE_ALONE,
          words.NOT_THE_MAILBOX,
          "RFC 5321's words for 550, and no other reason is named."),
    *(_RULE(f"no-such-mailbox-{language.id}", Answer.NOT_FOUND, "5", _RCPT, words.NO_POLICY_CODE,
            words.absent_in(language), words.NOT_THE_BOX_LOCALIZED,
            f"The reply says in {language.name} that the mailbox does not exist.")
      for language in LANGUAGES),
    _RULE("no-such-mailbox-5.7-languages", Answer.NOT_FOUND, "5", _RCPT, "",
          AnyOf(*map(words.absent_in, LANGUAGES)),
          words.NOT_THE_MAILBOX_LOCALIZED,
          "The same words with a policy code count where the reply says nothing else."),
    *(_RULE(f"no-such-mailbox-{language.id}", Answer.NOT_FOUND, "5", _RCPT, "",
            words.absent_unspaced(language), words.other_unspaced(language),
            f"The reply says in {language.name} that the mailbox does not exist.")
      for language in UNSPACED),
    _RULE("no-delivery", Answer.NOT_FOUND, "5", _RCPT, words.NO_POLICY_CODE, words.NO_DELIVERY_ALONE,
          words.NOT_THE_MAILBOX,
          "The server delivers no mail to this address, and names no other reason."),
    _RULE("mailbox-denied", Answer.NOT_FOUND, "550 551 553 554", _RCPT, words.NO_POLICY_CODE,
          AnyOf(words.DENIED, words.NO_ENTRY),
          AnyOf(words.NOT_THE_MAILBOX, words.SOMETHING_ELSE_DENIED, words.QUOTA_UNKNOWN),
          "One sentence denies that the mailbox is there, and no word speaks of anything else."),
    _RULE("mailbox-denied-languages", Answer.NOT_FOUND, "550 551 553 554", _RCPT, words.NO_POLICY_CODE,
          words.DENIED_LOCALIZED,
          words.NOT_THE_MAILBOX_LOCALIZED,
          "One sentence of another language denies that the mailbox is there."),
    _RULE("closed-somehow", Answer.DISABLED, "5", _RCPT, words.NO_POLICY_CODE,
          AnyOf(words.CLOSED_LOOSELY, words.CLOSED_LOOSELY_LOCALIZED),
          AnyOf(words.NOT_THE_MAILBOX, words.SOMETHING_ELSE_DENIED, words.NOT_THE_BOX_LOCALIZED),
          "One sentence says of the mailbox that it is closed, and no word speaks of anything else."),
    _RULE("bad-form", Answer.NOT_FOUND, "501 553", _RCPT, words.NO_POLICY_CODE, words.BAD_FORM,
          words.NOT_THE_MAILBOX,
          "The server takes the recipient for no address although its syntax is good: none of its own."),

    # No wording is known: what the words mean.
    _RULE("full-by-meaning", Answer.FULL, "4 5", _RCPT, "", "",
          AnyOf(words.US, words.NOT_FULL_LOOSELY),
          "The words of one sentence, whatever their order, say that the mailbox has no room left.",
          Meaning.FULL),
    _RULE("bad-mailbox-code", Answer.NOT_FOUND, "5", _RCPT, r"1\.(?:0|1|3|6|10)", words.NO_MORE_THAN_THE_CODE,
          words.BESIDE_A_BARE_CODE,
          "RFC 3463 X.1.0, X.1.1, X.1.3, X.1.6 and X.1.10 are about the mailbox, and the words of nothing."),
    _RULE("denied-beside-a-code", Answer.NOT_FOUND, "5", _RCPT, r"1\.(?:0|1|3|6|10)", words.OF_SOMEBODY,
          words.BESIDE_A_BARE_CODE,
          "RFC 3463 X.1.0, X.1.1, X.1.3, X.1.6 and X.1.10 are about the mailbox, and so are words that deny.",
          Meaning.DENIAL),
    _RULE("missing-by-code-and-meaning", Answer.NOT_FOUND, "5", _RCPT, r"1\.(?:1|10)", "",
          AnyOf(words.NOT_THE_MAILBOX_BY_MEANING, words.EXISTS_BUT),
          "RFC 3463 X.1.1 and words that mean that the mailbox is not there, whatever else they say of it.",
          Meaning.ABSENT),
    _RULE("closed-by-meaning", Answer.DISABLED, "5", _RCPT, "", "",
          words.NOT_THE_MAILBOX_BY_MEANING,
          "The words of one sentence, whatever their order, say that the mailbox is closed.", Meaning.CLOSED),
    _RULE("no-such-mailbox-by-meaning", Answer.NOT_FOUND, "5", _RCPT, "", "",
          AnyOf(words.NOT_THE_MAILBOX_BY_MEANING, words.EXISTS_BUT),
          "The words of one sentence, whatever their order, say that there is no such mailbox.",
          Meaning.ABSENT),

    # A rule of the house.
    _RULE("policy", Answer.REFUSED_US, "5", _ANY, "", words.POLICY, "",
          "A rule of the house refuses the mail; it says nothing about whether the mailbox exists."),
    _RULE("warning-link", Answer.REFUSED_US, "5", _ANY, "", words.WARNING_LINK, "",
          "The refusal gives no reason but a link to a page about block lists or spam."),
    _RULE("names-an-address", Answer.REFUSED_US, "5", _ANY, "", words.IP_LITERAL, "",
          "The refusal names an IP address and no reason to do with the mailbox."),
    _RULE("policy-code", Answer.REFUSED_US, "5", _ANY, r"7\.\d+", "", words.ANY_BOX,
          "RFC 3463 X.7.X is security or policy, and no word speaks of the mailbox."),

    # A temporary refusal in words of its own.
    _RULE("greylisting-by-meaning", Answer.GREYLISTED, "4", _RCPT, "", "", "",
          "The server does not know us yet and wants to see us again.", Meaning.UNKNOWN_CLIENT),
    _RULE("rate-by-meaning", Answer.RATE_LIMITED, "4", _ANY, "", "", "",
          "The words of one sentence say that there is too much of what we send.", Meaning.RATE_LIMIT),

    # Whatever is left.
    _RULE("temporary", Answer.TEMPORARY, "4", _ANY, "", "", "",
          "RFC 5321 section 4.2.1: a 4yz reply asks for another try."),
    _RULE("unclear", Answer.UNCLEAR, "5", _RCPT, "", "", "",
          "A permanent refusal that speaks neither of the mailbox nor of us."),
    _RULE("not-a-refusal", Answer.TEMPORARY, "", _BEFORE, "", "", "",
          "Before RCPT only a refusal means something for the mailbox's answer: ask again."),
    _RULE("odd-code", Answer.UNCLEAR, "", _ANY, "", "", "",
          "RFC 5321 has no such reply to RCPT."),
)
# fmt: on
"""All rules in order; the last ones apply to every reply."""

REASONS: Final = {rule.id: rule.reason for rule in RULES}
"""Why, by rule id, for evidence shown to people."""
