"""Send mail when jobs begin, end or fail, to the addresses in their annotations.

After a mail the controller records it in the annotation `MAIL_STATE` of the job, so that no controller sends it again;
a controller that dies between the two sends it once more. The annotation also shows the submitter whether there is a
mail server at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from strato.api.mail import ACCEPTED, MAIL, MAIL_STATE, MAIL_TYPE, MailType, parse_addresses, parse_types
from strato.api.meta import Key
from strato.api.volcano.batch import Job
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.job.terms import FINISHED_PHASES, Phase
from strato.controllers.reconcile import KeyedController
from strato.errors import NotFound, StratoError, one_line

if TYPE_CHECKING:  # at run time imported where mail is sent, because the import would delay the start
    from email.message import EmailMessage

NO_SERVER: Final = "not sent: the controllers have no SMTP server; start them with --smtp-server HOST:PORT"

_SMTP_SECONDS = 30.0
_PORT = 25
_NOT_BEGUN = frozenset({"", Phase.PENDING})


class MailRefused(StratoError):
    """The server will not take a message, now or later."""


class MailDelayed(StratoError):
    """The server cannot be reached or asks to try again."""


class SmtpMailer:
    """Sends messages to a relay that requires no login.

    Args:
        server: ``HOST`` or ``HOST:PORT``.
        sender: Address in ``From``; ``strato@`` and this machine's name when empty.
    """

    def __init__(self, server: str, sender: str) -> None:
        host, _, port = server.rpartition(":") if ":" in server else (server, "", "")
        self._address = host.strip("[]"), int(port or _PORT)
        self._sender = sender

    async def send(self, message: EmailMessage) -> None:
        """Send one message, in a thread because `smtplib` blocks.

        Raises:
            MailRefused: The relay will never accept the message.
            MailDelayed: The relay may accept it later.
        """
        await asyncio.to_thread(self._send, message)

    def _send(self, message: EmailMessage) -> None:
        import smtplib
        import socket

        message["From"] = self._sender or f"strato@{socket.getfqdn()}"
        try:
            with smtplib.SMTP(*self._address, timeout=_SMTP_SECONDS) as server:
                server.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            answers = {address: text.decode(errors="replace") for address, (_, text) in error.recipients.items()}
            kind = MailRefused if all(code >= 500 for code, _ in error.recipients.values()) else MailDelayed
            raise kind(f"the SMTP server refuses {answers}") from error
        except smtplib.SMTPResponseException as error:
            text = (
                error.smtp_error.decode(errors="replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
            )
            kind = MailRefused if error.smtp_code >= 500 else MailDelayed
            raise kind(f"the SMTP server says {error.smtp_code} {text}") from error
        except (OSError, smtplib.SMTPException) as error:
            host, port = self._address
            raise MailDelayed(f"the SMTP server {host}:{port} cannot be reached: {one_line(error)}") from error


def due(phase: str, wanted: Sequence[MailType], sent: Sequence[str]) -> tuple[MailType | None, tuple[MailType, ...]]:
    """Return the mail to send now, and the types that count as sent afterwards.

    A job that has ended gets no mail about its begin any more.
    """
    if phase in FINISHED_PHASES:
        failed = phase != Phase.COMPLETED
        fits = MailType.END in wanted or (failed and MailType.FAIL in wanted)
        about = (MailType.FAIL if failed else MailType.END) if fits else None
        return (None, ()) if MailType.END in sent else (about, (MailType.BEGIN, MailType.END))
    if phase in _NOT_BEGUN or MailType.BEGIN in sent:
        return None, ()
    return (MailType.BEGIN if MailType.BEGIN in wanted else None), (MailType.BEGIN,)


def compose(job: Job, about: MailType, addresses: Sequence[str]) -> EmailMessage:
    """Return the message about a job, without the sender, which `SmtpMailer` adds."""
    from email.message import EmailMessage

    meta, status = job.metadata, job.status
    word = {MailType.BEGIN: "began", MailType.END: "completed", MailType.FAIL: status.state.phase.lower()}[about]
    pods = sum(task.replicas for task in job.spec.tasks)
    lines = [
        f"Job {meta.name} in namespace {meta.namespace} {word}.",
        "",
        f"Queue:     {job.spec.queue}",
        f"Submitted: {meta.creation_timestamp}",
    ]
    if about is not MailType.BEGIN:
        lines += [
            f"Ended:     {status.state.last_transition_time}",
            f"Pods:      {status.succeeded} of {pods} succeeded, {status.failed} failed",
        ]
    if status.state.reason:
        lines.append(f"Reason:    {status.state.reason}: {status.state.message}")
    message = EmailMessage()
    message["To"] = ", ".join(addresses)
    message["Subject"] = f"Strato job {meta.namespace}/{meta.name} {word}"
    message.set_content("\n".join(lines) + "\n")
    return message


class MailController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "mail-controller"
    workers: ClassVar[int] = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        settings = context.settings
        self._mailer = SmtpMailer(settings.smtp_server, settings.mail_from) if settings.smtp_server else None
        self._states: dict[str, str] = {}
        """Uid of a job → its last written `MAIL_STATE`, which the cache may not show yet."""
        self._jobs = context.informers.informer(Job)
        self._jobs.add_handler(self._on_job, among=_with_mail)

    def _on_job(self, change: Change[Job]) -> None:
        if change.new is None:
            self._states.pop(change.object.metadata.uid, None)
        else:
            self.queue.add(change.key)

    async def reconcile(self, key: Key) -> float | None:
        """Send the mail that is due and record it on the job."""
        job = self._jobs.get(key)
        if job is None:
            return None
        meta = job.metadata
        known = self._states.get(meta.uid, meta.annotation(MAIL_STATE))
        state = await self._state(job, known)
        if state != known:
            self._states[meta.uid] = state
            body = {"metadata": {"uid": meta.uid, "annotations": {MAIL_STATE: state}}}
            try:
                await self._cluster.patch(Job, key.name, key.namespace, body)
            except NotFound:
                self._states.pop(meta.uid, None)
        return None

    async def _state(self, job: Job, known: str) -> str:
        """Send the mail that is due; returns the new `MAIL_STATE`."""
        if self._mailer is None:
            return NO_SERVER
        if known.startswith("not sent: ") and known != NO_SERVER:
            return known
        try:
            addresses = parse_addresses(job.metadata.annotation(MAIL))
            wanted = parse_types(job.metadata.annotation(MAIL_TYPE, "all"))
        except ValueError as error:
            return self._refused(job, str(error))
        sent = known.split(",")
        about, then = due(job.status.state.phase, wanted, sent)
        if about is not None:
            try:
                await self._mailer.send(compose(job, about, addresses))
            except MailRefused as error:
                return self._refused(job, str(error))
        return ",".join(then) if then else ACCEPTED if known in ("", NO_SERVER) else known

    def _refused(self, job: Job, why: str) -> str:
        self._recorder.event(job, "Warning", "MailNotSent", why)
        return f"not sent: {why}"


def _with_mail(changes: Sequence[Change[Job]]) -> Sequence[Change[Job]]:
    """Return the changes of jobs with the annotation `MAIL`."""
    return [change for change in changes if (of := change.object.metadata.annotations) and MAIL in of]
