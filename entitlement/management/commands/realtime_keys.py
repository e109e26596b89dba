"""Make, rotate, list and publish the keys that tokens are signed with."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from entitlement import conf, keys


class Command(BaseCommand):
    """The keys; without options: a line for each."""

    help = (
        'Make, rotate, list and publish the keys of REALTIME["TOKEN_KEYS"], with which tokens are signed. A new key '
        "begins to sign a little later, when the sidecars know it; the old one stays until its last token has ended."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take [--new ALGORITHM [--start SECONDS]] [--remove KID] [--public FILE] | --secret."""
        parser.add_argument("--new", choices=keys.ALGORITHMS, help="make a new key, which replaces the one that signs")
        parser.add_argument(
            "--start",
            type=int,
            default=keys.START_SECONDS,
            help="in how many seconds a new key begins to sign, beside others (%(default)s)",
        )
        parser.add_argument("--remove", metavar="KID", help="take a key out at once: the tokens that it signed end")
        parser.add_argument("--public", metavar="FILE", help="write the public keys there (-: to the standard output)")
        parser.add_argument(
            "--secret",
            action="store_true",
            help="print the HS256 secret alone, for the FASTPATH_TOKEN_SECRET of a sidecar",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Rotate, remove, publish, list: whatever was asked for."""
        if options["secret"]:
            self.stdout.write(_secret())
            return
        path = conf.token_keys()
        if not path:
            raise CommandError(
                'REALTIME["TOKEN_KEYS"] names no file: tokens are signed with the secret (HS256). Set it first, or '
                "have the secret with --secret."
            )
        try:
            if options["new"]:
                keys.rotate(path, options["new"], max(0, options["start"]))
            if options["remove"]:
                keys.remove(path, options["remove"])
            if options["public"] == "-":
                self.stdout.write(json.dumps(keys.public_set(keys.load(path)), indent=1))
                return
            if options["public"]:
                keys.export(path, options["public"])
            for line in _lines(keys.load(path)):
                self.stdout.write(line)
            self.stdout.write(f"public keys: {keys.export(path)}")
        except keys.KeysError as error:
            raise CommandError(str(error)) from None


def _secret() -> str:
    """Return what a sidecar verifies with; raise CommandError where that is keys alone."""
    secret = conf.sidecar_secret()
    if not secret:
        public = keys.public_path(conf.token_keys())
        raise CommandError(
            f"there is no secret: tokens are signed with keys. FASTPATH_TOKEN_KEYS of a sidecar is {public}"
        )
    return secret


def _lines(jwks: list[dict[str, Any]]) -> list[str]:
    now = int(time.time())
    signs = keys.signer(jwks, now)
    lines = []
    for jwk in jwks:
        if jwk is signs:
            state = "signs"
        elif jwk.get("nbf", 0) > now:
            state = f"signs from {_moment(jwk['nbf'])}"
        else:
            state = "is kept" + (f" until {_moment(jwk['exp'])}" if "exp" in jwk else "")
        lines.append(f"{jwk['kid']}  {jwk['alg']:5}  {state}")
    return lines


def _moment(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
