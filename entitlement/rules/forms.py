"""The forms of the admin: rules, groups with their members, the questions of preview, explain and import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django import forms
from django.contrib.admin.sites import AdminSite
from django.contrib.admin.widgets import AutocompleteSelect, FilteredSelectMultiple
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy

from entitlement import patterns, tokens
from entitlement.following.triggers import membership_field
from entitlement.models import Action, Rule
from entitlement.rules import files, preview
from fastpath.core.protocol.errors import InvalidSubject
from fastpath.core.protocol.subject import check_subject, is_wildcard

TEXT_MAX = 1 << 20
"""Characters that are shown of a file that was tried, so that it can be put right in place; a larger one is chosen
again."""

PATTERN_HELP = gettext_lazy(
    "<code>/stocks/us/IBM</code> this subject alone · "
    "<code>/stocks/*/IBM</code> <b>*</b> stands for exactly one segment · "
    "<code>/stocks/**</code> <b>**</b> at the end stands for one or more · "
    "<code>/inbox/{username}</code> the name of the user who asks, <code>{user_id}</code> the id."
)

PLAIN_INPUT = {"spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}
"""Attributes of an input whose text is no prose: nothing corrects or completes it."""


def pattern_widgets() -> dict[str, forms.TextInput]:
    """Return the inputs of a row that is about a pattern, and has a note."""
    return {
        "pattern": forms.TextInput(attrs={"size": 60, "placeholder": "/stocks/us/*"} | PLAIN_INPUT),
        "note": forms.TextInput(attrs={"size": 60}),
    }


class RuleForm(forms.ModelForm):  # type: ignore[type-arg]
    """A rule, with the pattern's syntax beside it."""

    class Meta:
        model = Rule
        fields = "__all__"
        help_texts = {"pattern": PATTERN_HELP}
        widgets = pattern_widgets()


class InlineRuleForm(RuleForm):
    """A rule in a row of a table."""

    class Meta(RuleForm.Meta):
        widgets = {
            "pattern": forms.TextInput(attrs={"size": 24} | PLAIN_INPUT),
            "note": forms.TextInput(attrs={"size": 16}),
        }


class MembersWidget(FilteredSelectMultiple):
    """Two lists to move users between, in the frame that the admin's script expects around them."""

    def render(self, *args: Any, **kwargs: Any) -> SafeString:
        """Return the widget, so that its label stays in front of it."""
        return format_html('<div class="related-widget-wrapper">{}</div>', super().render(*args, **kwargs))


class GroupForm(forms.ModelForm):  # type: ignore[type-arg]
    """A group with its members."""

    class Meta:
        model = Group
        fields = "__all__"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "members" in self.fields:
            users = get_user_model()._default_manager.order_by(get_user_model().USERNAME_FIELD)
            self.fields["members"].queryset = users  # type: ignore[attr-defined]
            if self.instance.pk:
                self.fields["members"].initial = members_of(self.instance).all()


class MembersForm(GroupForm):
    """The form where the user model has groups."""

    members = forms.ModelMultipleChoiceField(
        get_user_model()._default_manager.none(),
        label=gettext_lazy("Members"),
        required=False,
        widget=MembersWidget(gettext_lazy("members"), False),
        help_text=gettext_lazy("A change takes effect on the members' live connections within a second."),
    )


class UserWidget(AutocompleteSelect):
    """A search box for users that shows nothing in place of what is no user's key."""

    def optgroups(self, name: str, value: Any, attr: Any = None) -> Any:
        """Return Django's own groups of choices, or none for a key that it cannot look up in the database."""
        try:
            return super().optgroups(name, value, attr)
        except (ValueError, OverflowError, ValidationError):
            return super().optgroups(name, [], attr)


class WhoForm(forms.Form):
    """Asks for a user: a search box where whoever asks may look at users, else a name to type."""

    user = forms.Field(required=False)

    def __init__(self, request: HttpRequest, site: AdminSite, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        model = get_user_model()
        admin = site.get_model_admin(model) if site.is_registered(model) else None
        help_text = gettext("Empty: somebody who is not signed in.")
        if admin is not None and admin.get_search_fields(request) and admin.has_view_permission(request):
            widget = UserWidget(
                Rule._meta.get_field("user"),
                site,
                attrs={"data-placeholder": gettext("not signed in"), "style": "width: 20em"},
            )
            self.fields["user"] = forms.ModelChoiceField(
                model._default_manager.all(),
                label=gettext("User"),
                required=False,
                widget=widget,
                help_text=help_text,
            )
        else:
            self.fields["user"] = forms.CharField(
                label=gettext("User"),
                required=False,
                help_text=help_text,
                widget=forms.TextInput(attrs={"size": 24} | PLAIN_INPUT),
            )
        self.order_fields(["user"])

    def clean_user(self) -> Any:
        """Return the user, or None."""
        given = self.cleaned_data["user"]
        if not isinstance(given, str):
            return given
        try:
            return tokens.user_named(given) if given else None
        except tokens.UnknownUser:
            raise forms.ValidationError(gettext("There is no user %(name)r.") % {"name": given}) from None


class PreviewForm(WhoForm):
    """The form for a preview: a user and a choice of live subjects."""

    subjects = forms.CharField(
        required=False,
        strip=True,
        label=gettext_lazy("Subjects"),
        help_text=gettext_lazy("A pattern, /stocks/*/IBM, or how they begin, /stocks/us. Empty: all."),
        widget=forms.TextInput(attrs={"size": 36, "placeholder": gettext_lazy("all")} | PLAIN_INPUT),
    )
    show = forms.ChoiceField(
        label=gettext_lazy("Show"),
        required=False,
        choices=[
            (preview.ALL, gettext_lazy("all")),
            (preview.ALLOWED, gettext_lazy("what they may read")),
            (preview.DENIED, gettext_lazy("what they may not read")),
        ],
    )

    def clean_subjects(self) -> str:
        """Say what is wrong with a pattern."""
        text = str(self.cleaned_data["subjects"])
        if is_wildcard(text) and (fault := patterns.fault(text)):
            raise forms.ValidationError(fault)
        return text


class ExplainForm(WhoForm):
    """The form for an explanation: a user, a subject and an action."""

    subject = forms.CharField(
        label=gettext_lazy("Subject"),
        widget=forms.TextInput(attrs={"size": 48, "placeholder": "/stocks/us/IBM"} | PLAIN_INPUT),
        help_text=gettext_lazy("One subject, without wildcards."),
    )
    action = forms.ChoiceField(
        label=gettext_lazy("Action"),
        choices=[
            (Action.SUBSCRIBE, gettext_lazy("subscribe (read)")),
            (Action.PUBLISH, gettext_lazy("publish (write)")),
        ],
    )

    def clean_subject(self) -> str:
        """Say what is wrong with the subject."""
        text = str(self.cleaned_data["subject"])
        try:
            check_subject(text)
        except InvalidSubject as error:
            if is_wildcard(text):
                raise forms.ValidationError(gettext("One subject, please: without * and **.")) from None
            raise forms.ValidationError(
                patterns.fault(text) or f"{capfirst(patterns.reason_words(error.reason))}."
            ) from None
        return text


class ImportForm(forms.Form):
    """A file of rules, or its text."""

    file = forms.FileField(
        label=gettext_lazy("File"),
        required=False,
        help_text=gettext_lazy("A .json or .csv file, as the export writes it."),
    )
    text = forms.CharField(
        required=False,
        strip=False,
        label=gettext_lazy("or its text"),
        widget=forms.Textarea(attrs={"rows": 14, "wrap": "off", "class": "vLargeTextField rules-text"} | PLAIN_INPUT),
    )
    format = forms.ChoiceField(
        label=gettext_lazy("Format"),
        choices=[("json", "JSON"), ("csv", "CSV")],
        required=False,
        help_text=gettext_lazy("Of the text."),
    )
    replace = forms.BooleanField(required=False, label=gettext_lazy("Delete the rules that are not in the file"))

    def clean(self) -> dict[str, Any]:
        """Return the text and its form; a file goes before a text."""
        data: dict[str, Any] = super().clean() or {}
        file = data.get("file")
        data["name"] = "text"
        if file is not None:
            data["name"] = file.name
            suffix = Path(file.name).suffix.lstrip(".").lower()
            if suffix not in files.FORMATS:
                raise forms.ValidationError(gettext("The file's name ends in neither .json nor .csv."))
            if file.size > files.BYTES_MAX:
                raise forms.ValidationError(
                    gettext("The file is larger than %(most)s MB.") % {"most": files.BYTES_MAX >> 20}
                )
            data["format"] = suffix
            try:
                data["text"] = files.decode(file.read())
            except files.TransferError as error:
                raise forms.ValidationError(str(error)) from None
        elif not data.get("text", "").strip():
            raise forms.ValidationError(gettext("Choose a file, or put its text into the box."))
        return data


def members_of(group: Group) -> Any:
    """Return the manager of a group's users, by whatever name the user model gives it."""
    memberships = membership_field()
    if memberships is None:
        raise TypeError("The user model has no groups.")
    return getattr(group, memberships.remote_field.get_accessor_name())
