"""Texts in the types of columns, as Spark's own cast from string reads them; null where it reads nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, DecimalException
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark import TaskContext

if TYPE_CHECKING:
    import pyarrow as pa

_BLANKS = "".join(map(chr, range(33)))
"""Characters that Java's trim() takes away."""
_CONTROLS = _BLANKS + "\x7f"
"""Characters that Spark's own trimming takes away."""

_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})

_WHOLE = re.compile(r"[+-]?[0-9]+")
_CUT = re.compile(r"([+-]?)([0-9]*)(?:\.[0-9]*)?")
_FLOAT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX_FLOAT = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NO_NUMBERS = {f"{sign}{name}": float(f"{sign}inf") for sign in ("", "+", "-") for name in ("inf", "infinity")}
_NAN = "nan"
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?")
_EXPONENT_MAX = (1 << 31) - 1
_DIGITS_MAX = 38
_CONTEXT = Context(prec=2 * _DIGITS_MAX, rounding=ROUND_HALF_UP, Emax=MAX_EMAX, Emin=MIN_EMIN)

_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIME = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9].*)?)?)?"
_MOMENT = re.compile(rf"([+-]?)([0-9]{{4,6}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T]{_TIME})?)?)?", re.DOTALL)
_TIME_ALONE = re.compile(rf"(?:T(?=[0-9])|(?=[0-9]{{1,2}}:)){_TIME}", re.DOTALL)
_MS = re.compile(r"-?[0-9]{7,19}")
"""More digits than a year has; a date takes seven for one."""

_MS_END = 1 << 53

_OFFSET = re.compile(r"([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_OFFSET_SECONDS_MAX = 18 * 3600
_DAYS_TO_1970 = date(1970, 1, 1).toordinal()
_YEARS = 400
_YEARS_DAYS = 146_097
"""Days in the years after which the calendar begins anew."""

_SHORT = {
    "EST": "-05:00", "HST": "-10:00", "MST": "-07:00", "ACT": "Australia/Darwin", "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo", "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Java's names of three letters, which Spark knows."""


class Rules(NamedTuple):
    """The rules of a session for casts: ``spark.sql.ansi.enabled`` and ``spark.sql.session.timeZone``."""

    ansi: bool = True
    zone: str = "UTC"


SPARKS = Rules()
"""Rules where a session says nothing."""


def rules_of_task() -> Rules:
    """Return the rules of the session that this task works for; Spark's and ours where it has set none."""
    task = TaskContext.get()
    if task is None:
        return SPARKS
    ansi = task.getLocalProperty("spark.sql.ansi.enabled")
    return Rules(ansi is None or ansi.lower() == "true", task.getLocalProperty("spark.sql.session.timeZone") or "UTC")


def cast(texts: Sequence[str | None], kind: pa.DataType, rules: Rules) -> pa.Array:
    """Return the texts in this type."""
    import pyarrow as pa  # noqa: PLC0415 - it takes a third of a second: not where only options are checked
    import pyarrow.compute as pc  # noqa: PLC0415

    column = pa.array(texts, pa.string())
    if pa.types.is_string(kind):
        return column
    plain = _plain(kind)
    if plain and pc.all(pc.match_substring_regex(column, f"^(?:{plain})$")).as_py() is not False:
        return column.cast(kind)
    read = _reader(kind, rules)
    return pa.array([None if text is None else read(text) for text in texts], kind)


def _plain(kind: pa.DataType) -> str:
    """Return the form that Arrow reads as Spark does, and quickly; empty where there is none."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    if pa.types.is_integer(kind):
        return f"-?[0-9]{{1,{ {8: 2, 16: 4, 32: 9, 64: 18}[kind.bit_width] }}}"
    if pa.types.is_floating(kind):
        return r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?"
    if pa.types.is_boolean(kind):
        return "true|false"
    if pa.types.is_decimal(kind) and kind.precision > kind.scale:
        fraction = rf"(?:\.[0-9]{{1,{kind.scale}}})?" if kind.scale else ""
        return f"-?[0-9]{{1,{kind.precision - kind.scale}}}{fraction}"
    return ""


def _reader(kind: pa.DataType, rules: Rules) -> Callable[[str], Any]:
    """Return the function that reads one text."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    if pa.types.is_integer(kind):
        return partial(_whole, bits=kind.bit_width, ansi=rules.ansi)
    if pa.types.is_floating(kind):
        return _float if kind.bit_width == 64 else _short_float
    if pa.types.is_boolean(kind):
        return _boolean
    if pa.types.is_decimal(kind):
        return partial(_decimal, precision=kind.precision, scale=kind.scale)
    if pa.types.is_date(kind):
        return _days
    if pa.types.is_timestamp(kind):
        return partial(_micros, zone=zone_of(rules.zone) or UTC if kind.tz else None)
    raise TypeError(f"no text is read as {kind}")


def _boolean(text: str) -> bool | None:
    word = text.strip(_CONTROLS).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _whole(text: str, bits: int, ansi: bool) -> int | None:
    """Read a whole number in ANSI mode; else cut off what is behind the point."""
    text = text.strip(_CONTROLS)
    if ansi and not _WHOLE.fullmatch(text):
        return None
    found = _CUT.fullmatch(text)
    if not found or text in ("", "+", "-"):
        return None
    digits = found[2].lstrip("0")
    if len(digits) > len(str(1 << bits)):
        return None
    value = int(f"{found[1]}{digits or 0}")
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def _float(text: str) -> float | None:
    """Read a number as Java does, with suffixes and in hexadecimal, and some names in any case."""
    text = text.strip(_BLANKS)
    if found := _FLOAT.fullmatch(text):
        return float(found[1])
    if found := _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return float("-inf" if text.startswith("-") else "inf")
    name = text.lower()
    return float(_NAN) if name == _NAN or text in ("+NaN", "-NaN") else _NO_NUMBERS.get(name)


def _short_float(text: str) -> float | None:
    """Read a number and round once: what is rounded to 64 bits first may come out differently."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    value = _float(text)
    found = _FLOAT.fullmatch(text.strip(_BLANKS))
    if value is None or not found or value in (float("inf"), float("-inf")):
        return value
    try:
        short: float = pa.scalar(found[1].removeprefix("+")).cast(pa.float32()).as_py()
    except pa.ArrowInvalid:
        return value
    return short


def _decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Read a number and round half up to the scale; null where more digits are left than it has."""
    text = text.strip(_BLANKS)
    found = _DECIMAL.fullmatch(text)
    if not found or abs(int((found[1] or "0")[:20])) > _EXPONENT_MAX:
        return None
    try:
        value = Decimal(text)
        if value and value.adjusted() >= _DIGITS_MAX:
            return None
        rounded = value.quantize(Decimal(1).scaleb(-scale), context=_CONTEXT)
    except DecimalException:
        return None
    return rounded if len(rounded.as_tuple().digits) <= precision else None


def _days(text: str) -> int | None:
    """Return days since 1970; what stands behind the date counts for nothing."""
    text = text.strip(_CONTROLS)
    if found := _DATE.fullmatch(text):
        return _day(f"{found[1]}{found[2]}", found[3], found[4])
    ms = _milliseconds(text)
    return None if ms is None or abs(ms) >= _MS_END else ms // 86_400_000


def _micros(text: str, zone: tzinfo | None) -> int | None:
    """Return microseconds since 1970; ``zone`` is for what names none, None where zones count for nothing."""
    text = text.strip(_CONTROLS)
    if found := _MOMENT.fullmatch(text):
        sign, year, month, day, *clock = found.groups()
        days = _day(f"{sign}{year}", month, day)
    elif zone is not None and (found := _TIME_ALONE.fullmatch(text)):
        clock = list(found.groups())
        days = datetime.now(zone).toordinal() - _DAYS_TO_1970
    else:
        ms = _milliseconds(text)
        return None if ms is None or abs(ms) >= _MS_END else ms * 1000
    hour, minute, second = (int(part or 0) for part in clock[:3])
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    named = None
    if clock[4] is not None and (named := zone_of(clock[4].strip(_BLANKS))) is None:
        return None
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    if zone is not None:
        seconds -= _offset(days, seconds - days * 86_400, named or zone)
    micros = seconds * 1_000_000 + int((clock[3] or "")[:6].ljust(6, "0"))
    return micros if -(1 << 63) <= micros < 1 << 63 else None


def _milliseconds(text: str) -> int | None:
    """Read ms since 1970, as ours are: Spark reads nothing there."""
    return int(text) if _MS.fullmatch(text) else None


def _day(year: str, month: str | None, day: str | None) -> int | None:
    """Return the day of a date, counted from 1970; None where the calendar has none. Python's own ends with the year
    9999."""
    rounds, within = divmod(int(year) - 1, _YEARS)
    try:
        return date(within + 1, int(month or 1), int(day or 1)).toordinal() - _DAYS_TO_1970 + rounds * _YEARS_DAYS
    except ValueError:
        return None


def _offset(days: int, seconds: int, zone: tzinfo) -> int:
    """Return how far ahead of UTC a zone is at this time of its own, in seconds."""
    ordinal = min(max(days + _DAYS_TO_1970, 1), date.max.toordinal())
    local = datetime.fromordinal(ordinal) + timedelta(seconds=seconds)
    offset = zone.utcoffset(local)
    return 0 if offset is None else offset // timedelta(seconds=1)


@lru_cache(maxsize=1000)
def zone_of(name: str) -> tzinfo | None:
    """Return the zone as Java and Spark name it: Z, +01:00, UTC+1, Europe/Berlin, PST; None for what is none."""
    name = re.sub(r"^(.*?[+-])(\d):", r"\g<1>0\2:", name, count=1)
    name = re.sub(r"([+-]\d\d):(\d)$", r"\1:0\2", name, count=1)
    name = _SHORT.get(name, name)
    if name == "Z":
        return UTC
    for prefix in ("UTC", "GMT", "UT"):
        if name.startswith(prefix):
            name = name.removeprefix(prefix) or "+0"
            break
    if found := _OFFSET.fullmatch(name):
        hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
        total = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or total > _OFFSET_SECONDS_MAX:
            return None
        return timezone(timedelta(seconds=-total if found[1] == "-" else total))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
