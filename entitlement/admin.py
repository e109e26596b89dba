"""The admin pages of rules, and of groups with their members."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.sites import NotRegistered
from django.contrib.admin.widgets import FilteredSelectMultiple
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from entitlement.models import Effect, Rule
from entitlement.triggers import membership_field

PATTERN_HELP = format_html(
    "<code>/stocks/us/IBM</code> this subject alone · "
    "<code>/stocks/*/IBM</code> <b>*</b> stands for exactly one segment · "
    "<code>/stocks/**</code> <b>**</b> at the end stands for one or more · "
    "<code>/inbox/{}</code> the name of the user who asks.",
    "{username}",
)

DECISION_HELP = (
    "Of all rules that cover a subject the most specific decides, compared segment by segment from the left: a "
    "name is more specific than *, and * more than **. Between equals, deny wins. What no rule covers is denied. "
    "Active superusers may do everything."
)


class ValidityFilter(admin.SimpleListFilter):
    """Rules by whether they are in force now."""

    title = "validity"
    parameter_name = "validity"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The three states."""
        return [("now", "in force"), ("later", "not yet"), ("ended", "ended")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Rule]) -> QuerySet[Rule]:
        """The rules of the chosen state."""
        now = timezone.now()
        later, ended = Q(valid_from__gt=now), Q(valid_until__lte=now)
        chosen = {"now": ~later & ~ended & Q(enabled=True), "later": later, "ended": ended}.get(self.value() or "")
        return queryset if chosen is None else queryset.filter(chosen)


class WhoFilter(admin.SimpleListFilter):
    """Rules by the kind of holder."""

    title = "who"
    parameter_name = "who"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The four ways to say who."""
        return [
            ("user", "a user"),
            ("group", "a group"),
            ("everyone", "everyone"),
            ("anonymous", "anonymous"),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Rule]) -> QuerySet[Rule]:
        """The rules of the chosen kind."""
        kind = self.value()
        if kind in ("user", "group"):
            return queryset.filter(**{f"{kind}__isnull": False})
        return queryset.filter(**{kind: True}) if kind in ("everyone", "anonymous") else queryset


class RuleForm(forms.ModelForm):  # type: ignore[type-arg]
    """A rule, with the pattern's syntax beside it."""

    class Meta:
        model = Rule
        fields = "__all__"
        help_texts = {"pattern": PATTERN_HELP}
        widgets = {
            "pattern": forms.TextInput(
                attrs={
                    "size": 60,
                    "spellcheck": "false",
                    "autocapitalize": "off",
                    "placeholder": "/stocks/us/*",
                }
            ),
            "note": forms.TextInput(attrs={"size": 60}),
        }


@admin.register(Rule)
class RuleAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rules, listed by pattern."""

    form = RuleForm
    list_display = ("pattern", "who", "what", "decision", "validity", "note", "enabled")
    list_editable = ("enabled",)
    list_filter = (
        WhoFilter,
        "action",
        "effect",
        ValidityFilter,
        "enabled",
        ("group", admin.RelatedOnlyFieldListFilter),
    )
    list_select_related = ("user", "group")
    list_per_page = 50
    search_help_text = "Search in pattern, note, user name and group name."
    save_as = True
    radio_fields = {"action": admin.HORIZONTAL, "effect": admin.HORIZONTAL}
    fieldsets = (
        (
            "Who",
            {
                "fields": ("user", "group", ("everyone", "anonymous")),
                "description": "Exactly one of these four.",
            },
        ),
        ("What", {"fields": ("pattern", "action", "effect", "enabled"), "description": DECISION_HELP}),
        (
            "When and why",
            {
                "fields": (("valid_from", "valid_until"), "note"),
                "description": "A rule without dates is always in force.",
            },
        ),
    )
    actions = ("switch_on", "switch_off")

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Pattern, note and the names of who, by the user model's own field."""
        return ("pattern", "note", f"user__{get_user_model().USERNAME_FIELD}", "group__name")

    def get_autocomplete_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Search boxes for user and group, where their admins are there to search in."""
        site = self.admin_site
        return tuple(
            name
            for name, model in (("user", get_user_model()), ("group", Group))
            if site.is_registered(model) and site.get_model_admin(model).get_search_fields(request)
        )

    @admin.display(description="who", ordering="group__name")
    def who(self, rule: Rule) -> str:
        """The holder, in words."""
        return rule.who_text()

    @admin.display(description="action", ordering="action")
    def what(self, rule: Rule) -> str:
        """The action, in a word."""
        return str(rule.action)

    @admin.display(description="effect", ordering="effect")
    def decision(self, rule: Rule) -> str:
        """Allow or deny, told apart by a sign and not by colour alone."""
        return "✓\N{NO-BREAK SPACE}allow" if rule.effect == Effect.ALLOW else "✕\N{NO-BREAK SPACE}deny"

    @admin.display(description="validity", ordering="valid_until")
    def validity(self, rule: Rule) -> str:
        """From when to when, and whether that is now."""
        now = timezone.now()
        if rule.valid_from and rule.valid_from > now:
            return f"from {_moment(rule.valid_from)}"
        if rule.valid_until:
            return f"{'ended' if rule.valid_until <= now else 'until'} {_moment(rule.valid_until)}"
        return "always"

    @admin.action(description="Switch the selected rules on", permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[Rule]) -> None:
        """Enable them."""
        self.message_user(request, f"{queryset.update(enabled=True)} rules are on.")

    @admin.action(description="Switch the selected rules off", permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[Rule]) -> None:
        """Disable them."""
        self.message_user(request, f"{queryset.update(enabled=False)} rules are off.")


class InlineRuleForm(RuleForm):
    """A rule in a row of a table."""

    class Meta(RuleForm.Meta):
        widgets = {
            "pattern": forms.TextInput(attrs={"size": 24, "spellcheck": "false", "autocapitalize": "off"}),
            "note": forms.TextInput(attrs={"size": 16}),
        }


class RuleInline(admin.TabularInline):  # type: ignore[type-arg]
    """The rules of a group, on its page."""

    model = Rule
    form = InlineRuleForm
    extra = 0
    fields = ("pattern", "action", "effect", "enabled", "note")
    show_change_link = True
    verbose_name_plural = "Rules of this group"


class MembersWidget(FilteredSelectMultiple):
    """Two lists to move users between, in the frame that the admin's script expects around them."""

    def render(self, *args: Any, **kwargs: Any) -> SafeString:
        """The widget, so that its label stays in front of it."""
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
        required=False,
        widget=MembersWidget("members", False),
        help_text="A change takes effect on the members' live connections within a second.",
    )


class GroupAdmin(DjangoGroupAdmin):
    """Django's page of groups, with the member list and the group's rules."""

    list_display = ("name", "member_count")
    inlines = (RuleInline,)

    def get_form(self, request: HttpRequest, obj: Group | None = None, change: bool = False, **kwargs: Any) -> Any:
        """The form with members, if users have groups."""
        if membership_field() is not None:
            kwargs["form"] = MembersForm
        return super().get_form(request, obj, change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Group | None = None) -> Any:
        """Members before permissions, which are many."""
        members = ("members",) if membership_field() is not None else ()
        return (
            (None, {"fields": ("name", *members)}),
            ("Permissions in this admin", {"fields": ("permissions",)}),
        )

    def get_inlines(self, request: HttpRequest, obj: Group | None) -> Any:
        """A group has rules once it exists."""
        return () if obj is None else self.inlines

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save the members too."""
        super().save_related(request, form, formsets, change)
        if "members" in form.cleaned_data:
            members_of(form.instance).set(form.cleaned_data["members"])

    @admin.display(description="members")
    def member_count(self, group: Group) -> int | str:
        """How many users the group has."""
        return members_of(group).count() if membership_field() is not None else "–"


def members_of(group: Group) -> Any:
    """The manager of a group's users, by whatever name the user model gives it."""
    memberships = membership_field()
    if memberships is None:
        raise TypeError("The user model has no groups.")
    return getattr(group, memberships.remote_field.get_accessor_name())


def _moment(moment: Any) -> str:
    return (
        timezone.localtime(moment).strftime("%Y-%m-%d %H:%M")
        if timezone.is_aware(moment)
        else f"{moment:%Y-%m-%d %H:%M}"
    )


def _replace_group_admin() -> None:
    try:
        admin.site.unregister(Group)
    except NotRegistered:
        pass
    admin.site.register(Group, GroupAdmin)


_replace_group_admin()
