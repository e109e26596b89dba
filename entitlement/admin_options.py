"""The admin page of the options of subjects, and its preview: which row says what for a subject that is typed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.urls.resolvers import URLPattern
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy

from entitlement import patterns
from entitlement.following.compiler import option_records
from entitlement.models import SubjectOptions
from entitlement.rules.forms import PLAIN_INPUT, pattern_widgets
from fastpath.core.broker.rights_records import read_records
from fastpath.core.matching.subject_options import SubjectOptions as Matcher
from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.limits import SUBJECT_BYTES_MAX
from fastpath.core.protocol.options import OPTIONS, TopicOptions
from fastpath.core.protocol.subject import check_subject

PATTERN_HELP = gettext_lazy(
    "<code>/stocks/us/IBM</code> this subject alone · "
    "<code>/stocks/*/IBM</code> <b>*</b> stands for exactly one segment · "
    "<code>/stocks/**</code> <b>**</b> at the end stands for one or more."
)

DECISION_HELP = gettext_lazy(
    "For each option the most specific of the patterns that cover a subject and set it decides, compared segment by "
    "segment from the left: a name is more specific than *, and * more than **. What no pattern sets is as the "
    "settings of the sidecar have it. A wildcard in the first place does not stand for /user/. A change takes effect "
    "on every node within a second."
)

_FIELDS = {name: {"cache_ms": "cache_seconds"}.get(name, name) for name in OPTIONS}
"""The model's field for each option of the sidecar's."""


class OptionsForm(forms.ModelForm):  # type: ignore[type-arg]
    """A row, with the pattern's syntax beside it."""

    class Meta:
        model = SubjectOptions
        fields = "__all__"
        help_texts = {"pattern": PATTERN_HELP}
        widgets = pattern_widgets()


class SubjectForm(forms.Form):
    """Asks for a subject."""

    subject = forms.CharField(
        label=gettext_lazy("Subject"),
        max_length=SUBJECT_BYTES_MAX,
        strip=True,
        widget=forms.TextInput(attrs={"size": 50, "placeholder": "/stocks/us/IBM"} | PLAIN_INPUT),
    )

    def clean_subject(self) -> str:
        """Return a subject that can be, or raise why it cannot."""
        subject = str(self.cleaned_data["subject"])
        try:
            check_subject(subject)
        except InvalidSubject as error:
            raise forms.ValidationError(f"{capfirst(patterns.reason_words(error.reason))}.") from None
        return subject


@dataclass(frozen=True)
class Answer:
    """An option of a subject: its name, its value, and the row that says it; None: the settings of the sidecar do."""

    name: str
    value: Any
    row: SubjectOptions | None


def shown(row: SubjectOptions, name: str) -> Any:
    """Return an option of a row as people read it."""
    value = getattr(row, name)
    choices = SubjectOptions._meta.get_field(name).flatchoices
    return dict(choices).get(value, value)


def answers(subject: str) -> tuple[list[Answer], list[SubjectOptions]]:
    """Return what is in force for a subject, as the sidecar decides, and the rows that cover it, the most specific
    first."""
    matcher = Matcher(TopicOptions(0, 0), read_records([], [], [], option_records()).options or [])
    rows = SubjectOptions.objects.in_bulk([row.id for row in matcher.covering(subject)])
    won = matcher.winners(subject)
    found = []
    for option, name in _FIELDS.items():
        winner = won.get(option)
        row = None if winner is None else rows.get(winner.id)
        title = str(capfirst(SubjectOptions._meta.get_field(name).verbose_name))
        found.append(Answer(title, None if row is None else shown(row, name), row))
    return found, [rows[row.id] for row in matcher.covering(subject) if row.id in rows]


@admin.register(SubjectOptions)
class SubjectOptionsAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows of options, listed by pattern."""

    form = OptionsForm
    list_display = ("pattern", *SubjectOptions.OPTIONS, "note")
    list_per_page = 50
    search_fields = ("pattern", "note")
    search_help_text = gettext_lazy("Search in pattern and note.")
    save_as = True
    fieldsets = (
        (gettext_lazy("What"), {"fields": ("pattern",), "description": DECISION_HELP}),
        (
            gettext_lazy("Options"),
            {
                "fields": SubjectOptions.OPTIONS,
                "description": gettext_lazy("Empty: another pattern says it, or the settings of the sidecar do."),
            },
        ),
        (gettext_lazy("Why"), {"fields": ("note",)}),
    )

    def get_urls(self) -> list[URLPattern]:
        """Return our addresses before Django's own, whose last one takes everything for a row's number."""
        view = self.admin_site.admin_view(self.preview_view)
        return [path("preview/", view, name="entitlement_subjectoptions_preview"), *super().get_urls()]

    def preview_view(self, request: HttpRequest) -> HttpResponse:
        """Show which row says what for a subject."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = SubjectForm(request.GET if "subject" in request.GET else None)
        context: dict[str, Any] = self.admin_site.each_context(request) | {
            "title": gettext("What counts for a subject"),
            "opts": self.opts,
            "form": form,
            "media": self.media + form.media,
        }
        if form.is_bound and form.is_valid():
            found, covering = answers(form.cleaned_data["subject"])
            context |= {"subject": form.cleaned_data["subject"], "answers": found, "covering": covering}
        return TemplateResponse(request, "admin/entitlement/subjectoptions/preview.html", context)
