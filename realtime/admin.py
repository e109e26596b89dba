"""The admin's pages of this app: the log of all that was done in the admin and on the monitoring pages, to be read."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.http import HttpRequest


class LogEntryAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Who did what to what, and when; for users with ``admin.view_logentry``. Nobody changes it here."""

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

    @admin.display(description="message")
    def message(self, entry: LogEntry) -> str:
        """What was changed, in words."""
        return str(entry.get_change_message())

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: what is done writes it."""
        del request
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never."""
        del request, obj
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never."""
        del request, obj
        return False


# A project may have pages of its own for it.
if not admin.site.is_registered(LogEntry):
    admin.site.register(LogEntry, LogEntryAdmin)
