"""The admin's pages of this app: the log of what was done, to be read, and the messages of the outbox."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.core.exceptions import ImproperlyConfigured
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy, ngettext

from realtime.conf import conf
from realtime.models import OutboxMessage
from realtime.publishing.outbox.store import send_again


class LogEntryAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """The log of who did what to what, and when; for users with ``admin.view_logentry``. Nobody changes it here."""

    list_display = ("action_time", "user", "action_flag", "content_type", "object_repr", "message")
    list_filter = (
        "action_time",
        ("content_type", admin.RelatedOnlyFieldListFilter),
        ("user", admin.RelatedOnlyFieldListFilter),
    )
    list_select_related = ("user", "content_type")
    search_fields = ("object_repr", "change_message")
    date_hierarchy = "action_time"
    fields = ("action_time", "user", "action_flag", "content_type", "object_repr", "message")
    show_full_result_count = False

    @admin.display(description=gettext_lazy("message"))
    def message(self, entry: LogEntry) -> str:
        """Return what was changed, in words."""
        return str(entry.get_change_message())

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse everybody: what is done writes the log."""
        del request
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse everybody: a log is not changed."""
        del request, obj
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse everybody: a log loses nothing."""
        del request, obj
        return False


class WaitsFilter(admin.SimpleListFilter):
    """The filter for messages that wait, or those that were set aside."""

    title = gettext_lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the two choices."""
        del request, model_admin
        return [("waiting", gettext("waiting")), ("set_aside", gettext("set aside"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[OutboxMessage]) -> QuerySet[OutboxMessage]:
        """Return all messages, unless a choice was made."""
        del request
        if self.value() == "waiting":
            return queryset.filter(code="")
        return queryset.exclude(code="") if self.value() == "set_aside" else queryset


@admin.register(OutboxMessage)
class OutboxMessageAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """The messages that wait to be sent, and those that were refused and set aside; who may change these sends them
    again."""

    list_display = ("subject", "created", "size", "code", "reason", "refused")
    list_filter = (WaitsFilter, "code", "created")
    search_fields = ("subject", "reason")
    fields = ("subject", "created", "size", "code", "reason", "refused")
    ordering = ("-id",)
    show_full_result_count = False
    actions = ("send_again",)

    @admin.action(description=gettext_lazy("Send again those that were set aside"), permissions=["change"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[OutboxMessage]) -> None:
        """Put messages that were set aside behind those that wait; leave all others where they are."""
        count = send_again(_outbox_database(), queryset.values_list("pk", flat=True))
        if not count:
            self.message_user(request, gettext("None of these was set aside."), messages.WARNING)
            return
        # English has one text for all numbers.
        words = ngettext("%(count)s messages are sent again.", "%(count)s messages are sent again.", count)
        self.message_user(request, words % {"count": count}, messages.SUCCESS)

    def get_queryset(self, request: HttpRequest) -> QuerySet[OutboxMessage]:
        """Return the messages of the database that the settings name."""
        return super().get_queryset(request).using(_outbox_database())

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse everybody: publish() writes the messages."""
        del request
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Return every field."""
        del request, obj
        return self.fields

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return False without an outbox: there is nothing to see."""
        return _has_outbox() and super().has_module_permission(request)


def _outbox_database() -> str | None:
    return conf.outbox or None


def _has_outbox() -> bool:
    try:
        return bool(conf.outbox)
    except ImproperlyConfigured:
        return False


# A project may have pages of its own for it.
if not admin.site.is_registered(LogEntry):
    admin.site.register(LogEntry, LogEntryAdmin)
