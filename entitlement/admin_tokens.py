"""The admin page of revoked tokens: what is listed, and how one more is revoked."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy

from entitlement import tokens
from entitlement.models import RevokedToken


class RevokeForm(forms.ModelForm):  # type: ignore[type-arg]
    """A token, or its id, and why."""

    token = forms.CharField(
        label=gettext_lazy("Token or its id"),
        widget=forms.Textarea(attrs={"rows": 5, "cols": 80, "spellcheck": "false", "autocapitalize": "off"}),
        help_text=gettext_lazy(
            "The whole token as it was given out (eyJ…), or its id, the claim jti. The token itself is not kept."
        ),
    )

    class Meta:
        model = RevokedToken
        fields = ("note",)
        widgets = {"note": forms.TextInput(attrs={"size": 60})}

    field_order = ("token", "note")

    def clean_token(self) -> str:
        """Return the token, if it can be revoked; raise ValidationError, which says what is wrong with the token."""
        given = str(self.cleaned_data["token"])
        try:
            found = tokens.find(given)
        except tokens.RevokeError as error:
            raise forms.ValidationError(str(error)) from None
        if found.pk is not None:
            raise forms.ValidationError(gettext("The token %(id)s is revoked already.") % {"id": found.jti})
        self.instance = found
        return given


@admin.register(RevokedToken)
class RevokedTokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Revoked tokens are added and looked at; what is revoked stays so."""

    list_display = ("jti", "user_name", "time", "by", "expires", "note")
    list_filter = ("time",)
    list_select_related = ("by",)
    search_fields = ("jti", "user_name", "note")
    search_help_text = gettext_lazy("Search in id, user name and note.")
    fields = ("jti", "user_name", "time", "by", "expires", "note")

    def get_form(
        self, request: HttpRequest, obj: RevokedToken | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """Adding asks for the token; looking shows what is kept of it."""
        if obj is None:
            kwargs |= {"form": RevokeForm, "fields": None}
        return super().get_form(request, obj, change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: RevokedToken | None = None) -> Any:
        """Return the fields to fill in, with a sentence on what revoking does."""
        if obj is not None:
            return super().get_fieldsets(request, obj)
        what = gettext(
            "Connections that this token opened are closed within a second, and it opens none any more. That is final."
        )
        return ((None, {"fields": ("token", "note"), "description": what}),)

    def save_model(self, request: HttpRequest, obj: RevokedToken, form: Any, change: bool) -> None:
        """Revoke it; who did so is kept."""
        obj.by_id = request.user.pk
        super().save_model(request, obj, form, change)

    def has_change_permission(self, request: HttpRequest, obj: RevokedToken | None = None) -> bool:
        """Return False: nobody changes a token."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: RevokedToken | None = None) -> bool:
        """Return False: nobody deletes a token, as a revoked one would be valid again."""
        return False
