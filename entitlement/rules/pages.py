"""The admin's pages about rules besides lists and forms: preview, explain, import and export."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters, csrf_protect_m
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, StreamingHttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.urls.resolvers import URLPattern
from django.utils.translation import gettext

from entitlement import history
from entitlement.models import Rule
from entitlement.rules import explain, files, preview, transfer
from entitlement.rules.forms import TEXT_MAX, ExplainForm, ImportForm, PreviewForm

ERRORS_SHOWN = 100

_TYPES = {"json": "application/json", "csv": "text/csv; charset=utf-8"}


class RulePages:
    """Adds the pages to the admin of rules."""

    admin_site: Any
    opts: Any

    def get_urls(self) -> list[URLPattern]:
        """Return our addresses before Django's own, whose last one takes everything for a rule's number."""
        view = self.admin_site.admin_view
        return [
            path("preview/", view(self.preview_view), name="entitlement_rule_preview"),
            path("explain/", view(self.explain_view), name="entitlement_rule_explain"),
            path("import/", view(self.import_view), name="entitlement_rule_import"),
            path("export/<str:form>/", view(self.export_view), name="entitlement_rule_export"),
            *super().get_urls(),  # type: ignore[misc]
        ]

    def preview_view(self, request: HttpRequest) -> HttpResponse:
        """Show which of the subjects in use a user may read and publish."""
        self._may(request, "view")
        asked = bool(request.GET)
        form = PreviewForm(request, self.admin_site, request.GET if asked else None, initial={"show": preview.ALL})
        context: dict[str, Any] = {}
        if asked and form.is_valid():
            chosen = form.cleaned_data
            who = explain.person(chosen["user"])
            page = preview.page(who, chosen["subjects"], chosen["show"] or preview.ALL, request.GET.get("after", ""))
            again = {name: value for name, value in request.GET.items() if name != "after"}
            context = {
                "who": who,
                "page": page,
                "begin": urlencode(again) if request.GET.get("after") else "",
                "next": urlencode(again | {"after": page.after}) if page.after else "",
                "user_key": request.GET.get("user", ""),
            }
        return self._page(request, "preview", gettext("What a user can see"), form, context)

    def explain_view(self, request: HttpRequest) -> HttpResponse:
        """Show which rule decides about a user, a subject and an action, and why."""
        self._may(request, "view")
        asked = "subject" in request.GET
        initial = {"user": request.GET.get("user"), "action": "subscribe"}
        form = ExplainForm(request, self.admin_site, request.GET if asked else None, initial=initial)
        context: dict[str, Any] = {}
        if asked and form.is_valid():
            chosen = form.cleaned_data
            who = explain.person(chosen["user"])
            context["explanation"] = explain.explain(who, chosen["subject"], chosen["action"])
        return self._page(request, "explain", gettext("Why may they, or why not"), form, context)

    def export_view(self, request: HttpRequest, form: str) -> HttpResponseBase:
        """Answer with a file of the rules, of those in the list that the request came from."""
        self._may(request, "view")
        try:
            rules = self.get_changelist_instance(request).queryset  # type: ignore[attr-defined]
        except IncorrectLookupParameters:
            rules = None
        if rules is None or form not in files.FORMATS:
            return HttpResponseRedirect(reverse("admin:entitlement_rule_changelist"))
        response = StreamingHttpResponse(transfer.export(rules, form), content_type=_TYPES[form])
        response["Content-Disposition"] = f'attachment; filename="rules.{form}"'
        return response

    @csrf_protect_m
    def import_view(self, request: HttpRequest) -> HttpResponse:
        """Try a file, or take it."""
        for permission in ("add", "change", "delete"):
            self._may(request, permission)
        form = ImportForm(request.POST or None, request.FILES or None)
        context: dict[str, Any] = {}
        if request.method == "POST" and form.is_valid():
            chosen = form.cleaned_data
            dry = "take" not in request.POST
            try:
                with history.acting(request.user, f"import of {chosen['name']}"):
                    plan = transfer.load(chosen["text"], chosen["format"], replace=chosen["replace"], dry=dry)
            except files.TransferError as error:
                form.add_error(None, str(error))
            else:
                if not dry and not plan.errors:
                    messages.success(request, gettext("The file was taken: %(summary)s") % {"summary": plan.summary()})
                    return HttpResponseRedirect(reverse("admin:entitlement_rule_changelist"))
                shown = {"plan": plan, "errors": plan.errors[:ERRORS_SHOWN]}
                context = shown | {"more_errors": len(plan.errors) - ERRORS_SHOWN}
                form = _with_text(chosen)
                context["choose_again"] = not form.initial["text"]
        return self._page(request, "import", gettext("Import rules"), form, context)

    def _may(self, request: HttpRequest, permission: str) -> None:
        if not getattr(self, f"has_{permission}_permission")(request):
            raise PermissionDenied

    def _page(self, request: HttpRequest, name: str, title: str, form: Any, more: dict[str, Any]) -> TemplateResponse:
        context = self.admin_site.each_context(request) | {
            "title": title,
            "opts": self.opts,
            "form": form,
            "media": self.media + form.media,  # type: ignore[attr-defined]
            "rules_total": Rule.objects.count() if name == "import" else None,
            **more,
        }
        return TemplateResponse(request, f"admin/entitlement/rule/{name}.html", context)


def _with_text(chosen: dict[str, Any]) -> ImportForm:
    """Return the form again, with what was tried in it, so that it can be put right in place."""
    text = chosen["text"] if len(chosen["text"]) <= TEXT_MAX else ""
    return ImportForm(initial={"text": text, "format": chosen["format"], "replace": chosen["replace"]})
