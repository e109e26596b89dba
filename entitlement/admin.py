"""The admin pages of rules, and of groups with their members."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_permission_codename, get_user_model
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, ngettext

from entitlement import (
    admin_options,  # noqa: F401 - registers its page
    admin_tokens,  # noqa: F401 - the same
    history,
)
from entitlement.following.triggers import membership_field
from entitlement.models import Effect, Rule, RuleChange, word
from entitlement.rules.explain import moment
from entitlement.rules.forms import InlineRuleForm, MembersForm, RuleForm, members_of
from entitlement.rules.hints import hints
from entitlement.rules.pages import RulePages

CHANGES_SHOWN = 10
"""The newest changes of a rule, on its page."""

INLINE_RULES_MAX = 100
"""A group with more rules shows a link to their list."""

DECISION_HELP = gettext_lazy(
    "Of all rules that cover a subject the most specific decides, compared segment by segment from the left: a "
    "name is more specific than *, and * more than **. Between equals, deny wins. What no rule covers is denied. "
    "Active superusers may do everything."
)


class ValidityFilter(admin.SimpleListFilter):
    """Rules by whether they are in force now."""

    title = gettext_lazy("validity")
    parameter_name = "validity"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the three states."""
        return [("now", gettext("in force")), ("later", gettext("not yet")), ("ended", gettext("ended"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Rule]) -> QuerySet[Rule]:
        """Return the rules of the chosen state."""
        now = timezone.now()
        later, ended = Q(valid_from__gt=now), Q(valid_until__lte=now)
        chosen = {"now": ~later & ~ended & Q(enabled=True), "later": later, "ended": ended}.get(self.value() or "")
        return queryset if chosen is None else queryset.filter(chosen)


class WhoFilter(admin.SimpleListFilter):
    """Rules by the kind of holder."""

    title = gettext_lazy("who")
    parameter_name = "who"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the four ways to say who."""
        return [
            ("user", gettext("a user")),
            ("group", gettext("a group")),
            ("everyone", gettext("everyone")),
            ("anonymous", gettext("anonymous")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Rule]) -> QuerySet[Rule]:
        """Return the rules of the chosen kind."""
        kind = self.value()
        if kind in ("user", "group"):
            return queryset.filter(**{f"{kind}__isnull": False})
        return queryset.filter(**{kind: True}) if kind in ("everyone", "anonymous") else queryset


class Recorded:
    """Notes who changes rules on these pages."""

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with history.acting(request.user, "the admin"):
            return super().changelist_view(request, *args, **kwargs)  # type: ignore[misc, no-any-return]

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with history.acting(request.user, "the admin"):
            return super().changeform_view(request, *args, **kwargs)  # type: ignore[misc, no-any-return]

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with history.acting(request.user, "the admin"):
            return super().delete_view(request, *args, **kwargs)  # type: ignore[misc, no-any-return]


@admin.register(Rule)
class RuleAdmin(Recorded, RulePages, admin.ModelAdmin):  # type: ignore[type-arg]
    """Rules, listed by pattern."""

    form = RuleForm
    list_display = ("number", "pattern", "who", "what", "decision", "validity", "note", "enabled")
    list_display_links = ("number", "pattern")
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
    show_full_result_count = False
    search_help_text = gettext_lazy("Search in number, pattern, note, user name and group name.")
    save_as = True
    radio_fields = {"action": admin.HORIZONTAL, "effect": admin.HORIZONTAL}
    fieldsets = (
        (
            gettext_lazy("Who"),
            {
                "fields": ("user", "group", ("everyone", "anonymous")),
                "description": gettext_lazy("Exactly one of these four."),
            },
        ),
        (
            gettext_lazy("What"),
            {"fields": ("pattern", "action", "effect", "enabled"), "description": DECISION_HELP},
        ),
        (
            gettext_lazy("When and why"),
            {
                "fields": (("valid_from", "valid_until"), "note"),
                "description": gettext_lazy("A rule without dates is always in force."),
            },
        ),
    )
    actions = ("switch_on", "switch_off")

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Number, pattern, note and the names of who, by the user model's own field."""
        return ("=id", "pattern", "note", f"user__{get_user_model().USERNAME_FIELD}", "group__name")

    def get_autocomplete_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Search boxes for user and group, where their admins are there to search in."""
        site = self.admin_site
        return tuple(
            name
            for name, model in (("user", get_user_model()), ("group", Group))
            if site.is_registered(model) and site.get_model_admin(model).get_search_fields(request)
        )

    @admin.display(description="ID", ordering="id")
    def number(self, rule: Rule) -> str:
        """Return the rule's number as it is searched for: a name, and no amount."""
        return str(rule.pk)

    @admin.display(description=gettext_lazy("who"), ordering="group__name")
    def who(self, rule: Rule) -> str:
        """Return the holder, in words."""
        return rule.who_text()

    @admin.display(description=gettext_lazy("action"), ordering="action")
    def what(self, rule: Rule) -> str:
        """Return the action, in a word."""
        return rule.action_word()

    @admin.display(description=gettext_lazy("effect"), ordering="effect")
    def decision(self, rule: Rule) -> str:
        """Allow or deny, told apart by a sign and not by colour alone."""
        return ("✓" if rule.effect == Effect.ALLOW else "✕") + "\N{NO-BREAK SPACE}" + word(rule.effect)

    @admin.display(description=gettext_lazy("validity"), ordering="valid_until")
    def validity(self, rule: Rule) -> str:
        """Return from when to when the rule is in force, and whether that is now."""
        now = timezone.now()
        if rule.valid_from and rule.valid_from > now:
            return gettext("from %(time)s") % {"time": moment(rule.valid_from)}
        if rule.valid_until:
            words = gettext("ended %(time)s") if rule.valid_until <= now else gettext("until %(time)s")
            return words % {"time": moment(rule.valid_until)}
        return gettext("always")

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the rule with its number, by which the sidecar names it, and its newest changes."""
        changes = RuleChange.objects.filter(rule=object_id) if object_id.isdecimal() else RuleChange.objects.none()
        title = gettext("Rule %(number)s") % {"number": object_id}
        more = {"changes": changes[:CHANGES_SHOWN], "changes_total": changes.count(), "title": title}
        return super().change_view(request, object_id, form_url, more | (extra_context or {}))

    def save_model(self, request: HttpRequest, obj: Rule, form: Any, change: bool) -> None:
        """Save, and say which other rules decide beside it."""
        super().save_model(request, obj, form, change)
        if obj.pk and (form.changed_data or not change):
            for hint in hints(obj):
                messages.info(request, hint)

    @admin.action(description=gettext_lazy("Switch the selected rules on"), permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[Rule]) -> None:
        """Enable the chosen rules, all or none."""
        try:
            with transaction.atomic(using=queryset.db):
                count = queryset.update(enabled=True)
        except IntegrityError:
            words = gettext("Nothing was changed: no sidecar can read one of these rules. Its page says what is wrong.")
            self.message_user(request, words, messages.ERROR)
            return
        # English has one text for all numbers.
        self.message_user(
            request, ngettext("%(count)s rules are on.", "%(count)s rules are on.", count) % {"count": count}
        )

    @admin.action(description=gettext_lazy("Switch the selected rules off"), permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[Rule]) -> None:
        """Disable the chosen rules."""
        count = queryset.update(enabled=False)
        self.message_user(
            request, ngettext("%(count)s rules are off.", "%(count)s rules are off.", count) % {"count": count}
        )


class RuleInline(admin.TabularInline):  # type: ignore[type-arg]
    """The rules of a group, on its page."""

    model = Rule
    form = InlineRuleForm
    extra = 0
    fields = ("pattern", "action", "effect", "enabled", "note")
    show_change_link = True
    verbose_name_plural = gettext_lazy("Rules of this group")


@admin.register(RuleChange)
class RuleChangeAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """All changes of rules, also of those that are gone; nothing can be edited."""

    list_display = ("time", "number", "kind", "what", "user_name", "means")
    fields = ("time", "number", "user_key", "user_name", "means", "before", "after")
    readonly_fields = ("number",)
    list_display_links = None
    list_filter = ("time",)
    list_per_page = 50
    show_full_result_count = False
    search_fields = ("=rule", "user_name", "means")
    search_help_text = gettext_lazy("Search a rule's number, who made the change, or by what means.")
    date_hierarchy = None

    @admin.display(description=gettext_lazy("rule"), ordering="rule")
    def number(self, change: RuleChange) -> SafeString | str:
        """Return the rule's number, which leads to the rule while that is there."""
        if change.after is None:
            return str(change.rule)
        return format_html(
            '<a href="{}">{}</a>', reverse("admin:entitlement_rule_change", args=[change.rule]), change.rule
        )

    @admin.display(description=gettext_lazy("change"))
    def kind(self, change: RuleChange) -> str:
        """Return added, changed or deleted."""
        return change.kind_word()

    @admin.display(description=gettext_lazy("from what to what"))
    def what(self, change: RuleChange) -> SafeString:
        """Return the change in words: each value that differs, or the whole rule."""
        if change.kind() == "changed":
            return format_html_join("; ", "{}: {} → {}", change.differences())
        state = change.after or change.before or {}
        return format_html(
            "{} {} {} {}", *(word(state.get(name, "")) for name in ("effect", "who", "action", "pattern"))
        )

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse everybody: changes come about by themselves."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: RuleChange | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: RuleChange | None = None) -> bool:
        return False


class GroupRules(Recorded):
    """The columns and rows that a project's own page of groups takes to have the groups' rules
    (docs/develop/entitlement.md).

    ``rule_count`` and ``member_count`` are columns for its ``list_display``.
    """

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        """Return the groups with the counts that the list shows."""
        rules = Rule.objects.filter(group=OuterRef("pk")).order_by().values("group").annotate(n=Count("pk"))
        groups = super().get_queryset(request)  # type: ignore[misc]
        groups = groups.annotate(rules_n=Subquery(rules.values("n")))
        memberships = membership_field()
        if memberships is None:
            return groups
        through, group = memberships.remote_field.through, memberships.m2m_reverse_field_name()
        members = through.objects.filter(**{group: OuterRef("pk")}).order_by().values(group).annotate(n=Count("pk"))
        return groups.annotate(members_n=Subquery(members.values("n")))

    def get_inlines(self, request: HttpRequest, obj: Group | None) -> Any:
        """Return the inlines: a group has rules once it exists; very many are shown in their own list."""
        others = super().get_inlines(request, obj)  # type: ignore[misc]
        return others if obj is None or _many_rules(obj) else [*others, RuleInline]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the form with the way to the group's rules."""
        group = kwargs.get("obj")
        if group is not None and _many_rules(group):
            link = f"{reverse('admin:entitlement_rule_changelist')}?group__id__exact={group.pk}"
            text = gettext("This group has more than {} rules. <a href='{}'>Look at them in their list.</a>")
            messages.info(request, format_html(text, INLINE_RULES_MAX, link))
        return super().render_change_form(request, context, *args, **kwargs)  # type: ignore[misc, no-any-return]

    @admin.display(description=gettext_lazy("members"))
    def member_count(self, group: Group) -> int | str:
        """Return the number of users in the group."""
        return (group.members_n or 0) if membership_field() is not None else "–"  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("rules"))
    def rule_count(self, group: Group) -> SafeString:
        """Return the number of rules about the group, as a link to them."""
        link = f"{reverse('admin:entitlement_rule_changelist')}?group__id__exact={group.pk}"
        return format_html('<a href="{}">{}</a>', link, group.rules_n or 0)  # type: ignore[attr-defined]


class GroupAdmin(GroupRules, DjangoGroupAdmin):
    """Django's page of groups, with the member list and the group's rules."""

    list_display = ("name", "member_count", "rule_count")

    def get_form(self, request: HttpRequest, obj: Group | None = None, change: bool = False, **kwargs: Any) -> Any:
        """Return the form, with members for users who may change these."""
        if _may_change_members(request):
            kwargs["form"] = MembersForm
        return super().get_form(request, obj, change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Group | None = None) -> Any:
        """Return the fields, members before permissions, which are many."""
        members = ("members",) if _may_change_members(request) else ()
        return (
            (None, {"fields": ("name", *members)}),
            (gettext("Permissions in this admin"), {"fields": ("permissions",)}),
        )

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save the members too."""
        super().save_related(request, form, formsets, change)
        if "members" in form.cleaned_data:
            members_of(form.instance).set(form.cleaned_data["members"])


def _may_change_members(request: HttpRequest) -> bool:
    """Return True for users who may change users: the right to change groups alone gives nobody another's rights."""
    opts = get_user_model()._meta
    permission = f"{opts.app_label}.{get_permission_codename('change', opts)}"
    return membership_field() is not None and request.user.has_perm(permission)


def _many_rules(group: Group) -> bool:
    return Rule.objects.filter(group=group)[INLINE_RULES_MAX : INLINE_RULES_MAX + 1].exists()


def _replace_group_admin() -> None:
    """Replace Django's own page alone: one of the project's stays, and so does its wish to have none."""
    if admin.site.is_registered(Group) and type(admin.site.get_model_admin(Group)) is DjangoGroupAdmin:
        admin.site.unregister(Group)
        admin.site.register(Group, GroupAdmin)


_replace_group_admin()
