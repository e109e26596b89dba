"""Answers what auditors ask of the audit's files: who saw what, which rights nobody uses, what is unusual.

Run it as `python -m spark.jobs.audit --help`; what the files say is in docs/operate/audit.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from spark.jobs import audit_files
from spark.jobs.running import JobError, positive, run_batch
from spark.support.rules import InvalidRules, Rule, Uses, load, load_members

CLIENT = ("node", "worker", "connection")
FOLDER_VARIABLE = "REALTIME_AUDIT_FOLDER"
REFUSALS = ("denied", "refused", "rejected", "publisher_rejected")
SHOWN_MAX = 20
USES = {
    "subscribed": ("subscribe", "allow"),
    "denied": ("subscribe", "deny"),
    "published": ("publish", "allow"),
    "refused": ("publish", "deny"),
}
"""Events that are a use of a rule, with the rule's action and effect."""

HISTORY_HOURS = 12
"""Hours in which a user did something before another hour of theirs can be unusual."""

BURST_SECONDS = 60
KNOWN_SECONDS = 86_400
"""A user who came first less than a day ago has no usual address yet."""


def transform(events: DataFrame) -> DataFrame:
    """Audit events (spark/jobs/audit_files.py) to who could read what, and when.

    One row for each user and time that a subscription ran: `user`, `address`, `subject`, `node`, `connection`,
    `since`, `until` (null: nobody wrote down its end), `stored` (messages it got from the cache first) and
    `published` (those published meanwhile; 0 unless the audit has the kind `message`).
    """
    # Events of the same millisecond have the order of their lines.
    events = events.withColumn("at", F.struct("time", "line"))
    order = Window.partitionBy(*CLIENT).orderBy("at")
    access = events.where((F.col("kind") == "access") & F.col("connection").isNotNull())
    # A worker that is started again counts its connections anew.
    access = access.withColumn("visit", F.sum(F.when(F.col("event") == "connected", 1).otherwise(0)).over(order))
    visit = (*CLIENT, "visit")
    within = Window.partitionBy(*visit, "subject").orderBy("at")
    named = access.where(F.col("event").isin("subscribed", "unsubscribed", "revoked"))
    named = named.withColumn("next", F.lead("at").over(within)).where(F.col("event") == "subscribed")
    whole = access.groupBy(*visit).agg(
        F.max(F.when(F.col("event") == "disconnected", F.col("at"))).alias("gone"),
        F.sort_array(F.collect_list(F.when(F.col("event") == "renewed", F.struct("at", "user")))).alias("renewals"),
    )
    stays = named.join(whole, list(visit)).withColumn("end", F.coalesce("next", "gone"))
    first = F.col("stay.since") == F.col("at")
    return _with_published(
        stays.select("*", F.explode(_holders()).alias("stay")).select(
            "stay.*",
            "address",
            "subject",
            "node",
            "connection",
            F.when(first, F.coalesce("messages", F.lit(0))).otherwise(0).alias("stored"),
        ),
        events,
    )


def _holders() -> Column:
    """Return a subscription for each user who had it: the token of a connection may be renewed with that of another."""
    later = F.filter(
        "renewals", lambda one: (one["at"] > F.col("at")) & (F.col("end").isNull() | (one["at"] < F.col("end")))
    )
    users = F.concat(F.array(F.struct("at", "user")), later)
    return F.transform(
        users,
        lambda one, place: F.struct(
            one["user"].alias("user"),
            one["at"].alias("since"),
            F.coalesce(F.get(users, place + 1)["at"], F.col("end")).alias("until"),
        ),
    )


def _with_published(stays: DataFrame, events: DataFrame) -> DataFrame:
    """Add to each stay the messages published by its end less those by its beginning."""
    numbered = stays.withColumn("stay", F.struct(*stays.columns))
    never = F.struct(F.lit("9999-12-31").cast("timestamp").alias("time"), F.lit(0).cast("bigint").alias("line"))
    ends = F.array(
        F.struct(F.col("since").alias("at"), F.lit(-1).alias("sign")),
        F.struct(F.coalesce("until", never).alias("at"), F.lit(1).alias("sign")),
    )
    edges = numbered.select("subject", F.explode(ends).alias("end"), "stay")
    edges = edges.select("subject", "end.at", F.lit(0).alias("one"), "end.sign", "stay")
    nothing = F.lit(None).cast(numbered.schema["stay"].dataType)
    published = events.where(F.col("event") == "published").select(
        "subject", "at", F.lit(1).alias("one"), F.lit(0).alias("sign"), nothing.alias("stay")
    )
    so_far = Window.partitionBy("subject").orderBy("at").rowsBetween(Window.unboundedPreceding, 0)
    counted = edges.unionByName(published).withColumn("count", F.sum("one").over(so_far)).where(F.col("sign") != 0)
    totals = counted.groupBy("stay").agg(F.sum(F.col("sign") * F.col("count")).alias("published"))
    names = ("user", "address", "subject", "node", "connection")
    moments = (F.col(f"stay.{name}.time").alias(name) for name in ("since", "until"))
    return totals.select(*(f"stay.{name}" for name in names), *moments, "stay.stored", "published")


def usage(events: DataFrame, rules: Sequence[Rule], members: Mapping[str, frozenset[str]] | None = None) -> DataFrame:
    """Return the use of each rule: `number`, `who`, `pattern`, `action`, `effect`, `n`, `users`, `last`.

    `n` is 0 for a rule that nobody used, and null where the events tell nothing of such use, because the audit has no
    kind `message`.
    """
    kinds = F.create_map(*(F.lit(part) for event, pair in USES.items() for part in (event, "/".join(pair))))
    uses = events.where(F.col("event").isin(*USES) & F.col("subject").isNotNull())
    pair = F.split(F.element_at(kinds, F.col("event")), "/")
    uses = uses.groupBy(
        F.coalesce("user", F.lit("")).alias("user"), "subject", pair[0].alias("action"), pair[1].alias("effect")
    ).agg(F.count("*").alias("n"), F.max("time").alias("last"))
    found = uses.mapInArrow(Uses(rules, members).match, "number int, n bigint, last timestamp, user string")
    counted = found.groupBy("number").agg(
        F.sum("n").alias("n"), F.count_distinct("user").alias("users"), F.max("last").alias("last")
    )
    every = events.sparkSession.createDataFrame(
        [(rule.number, rule.who, rule.pattern, rule.action, rule.effect) for rule in rules],
        "number int, who string, pattern string, action string, effect string",
    )
    told = bool(events.where(F.col("kind") == "message").take(1))
    silent = F.lit(not told) & (F.col("action") == "publish") & (F.col("effect") == "allow")
    none = F.when(~silent, F.lit(0).cast("bigint"))
    return every.join(counted, "number", "left").select(
        *every.columns, F.coalesce("n", none).alias("n"), F.coalesce("users", none).alias("users"), "last"
    )


def anomalies(events: DataFrame, score: float = 4.0, burst: int = 20) -> DataFrame:
    """Return the unusual events, newest last: `time`, `what`, `user`, `address`, `value`, `usual`, `score`.

    `volume`: an hour of a user with so many events that it is `score` deviations above that user's other hours.
    `address`: a user, known for a day, came from an address for the first time. `refusals`: `burst` or more refusals of
    one user and address within a minute; `value` is how many, until there was a minute without.
    """
    every = (_volumes(events, score), _addresses(events), _bursts(events, burst))
    return every[0].unionByName(every[1]).unionByName(every[2]).orderBy("time", "what", "user", "address")


def _volumes(events: DataFrame, score: float) -> DataFrame:
    """Against all other hours of the same user; as for counts in general a deviation is at least their root."""
    known = events.where((F.coalesce("user", F.lit("")) != "") & F.col("kind").isin("access", "message"))
    hours = known.groupBy("user", F.date_trunc("hour", "time").alias("time")).agg(F.count("*").alias("value"))
    mine = Window.partitionBy("user")
    others = F.count("*").over(mine) - 1
    mean = (F.sum("value").over(mine) - F.col("value")) / others
    squares = (F.sum(F.col("value") * F.col("value")).over(mine) - F.col("value") * F.col("value")) / others
    hours = hours.withColumn("others", others).where(F.col("others") >= HISTORY_HOURS)
    hours = hours.select("*", mean.alias("usual"), squares.alias("squares"))
    deviation = F.greatest(F.sqrt(F.greatest(F.col("squares") - F.pow("usual", F.lit(2)), F.lit(0))), F.sqrt("usual"))
    hours = hours.withColumn("score", (F.col("value") - F.col("usual")) / F.greatest(deviation, F.lit(1)))
    return _found(hours.where(F.col("score") >= score), "volume", usual=F.col("usual"), score=F.col("score"))


def _addresses(events: DataFrame) -> DataFrame:
    came = events.where((F.col("event") == "connected") & (F.coalesce("user", F.lit("")) != ""))
    firsts = came.groupBy("user", "address").agg(F.min("time").alias("time"))
    since = F.col("time").cast("long") - F.min("time").over(Window.partitionBy("user")).cast("long")
    before = F.count("*").over(Window.partitionBy("user").orderBy("time")) - 1
    firsts = firsts.select("*", since.alias("known"), before.alias("value"))
    return _found(firsts.where(F.col("known") >= KNOWN_SECONDS), "address")


def _bursts(events: DataFrame, burst: int) -> DataFrame:
    refused = events.where(F.col("event").isin(*REFUSALS))
    nobody = (F.coalesce(name, F.lit("")).alias(name) for name in ("user", "address"))
    refused = refused.select("time", *nobody)
    lately = Window.partitionBy("user", "address").orderBy(F.col("time").cast("double")).rangeBetween(-BURST_SECONDS, 0)
    refused = refused.withColumn("lately", F.count("*").over(lately))
    times = refused.groupBy("user", "address", F.session_window("time", f"{BURST_SECONDS} seconds").alias("session"))
    found = times.agg(F.count("*").alias("value"), F.max("lately").alias("most"), F.min("time").alias("time"))
    return _found(found.where(F.col("most") >= burst), "refusals")


def _found(rows: DataFrame, what: str, usual: Column | None = None, score: Column | None = None) -> DataFrame:
    nothing = F.lit(None).cast("double")
    address = F.col("address") if "address" in rows.columns else F.lit("")
    return rows.select(
        "time",
        F.lit(what).alias("what"),
        "user",
        address.alias("address"),
        F.col("value").cast("double").alias("value"),
        (nothing if usual is None else usual).alias("usual"),
        (nothing if score is None else score).alias("score"),
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the job: what it looks at, and where the answers go."""
    folder = os.environ.get(FOLDER_VARIABLE)
    parser.add_argument(
        "--audit", nargs="+", default=[folder] if folder else None, required=not folder, metavar="DIR",
        help="folders of the sidecars' audit",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the tables seen, usage and anomalies")
    parser.add_argument("--rules", type=Path, metavar="FILE", help="manage.py entitlement_rules export FILE.json")
    parser.add_argument("--members", type=Path, metavar="FILE", help='{"group": ["user", …]}: else all are in all')
    parser.add_argument("--score", type=positive(float), default=4.0, help="deviations that are unusual")
    parser.add_argument("--burst", type=positive(int), default=20, help="refusals within a minute that are a burst")


def work(session: SparkSession, options: argparse.Namespace) -> None:
    """Write the tables, if they are wanted, and print what matters of each; raises JobError."""
    events = audit_files.read(session, *options.audit).persist()
    found = {"seen": transform(events), "anomalies": anomalies(events, options.score, options.burst)}
    if options.rules:
        try:
            members = load_members(options.members) if options.members else None
            found["usage"] = usage(events, load(options.rules), members)
        except (InvalidRules, OSError) as error:
            raise JobError(str(error)) from None
    found = {name: rows.persist() for name, rows in found.items()}
    for name, rows in found.items() if options.out else ():
        rows.write.mode("overwrite").parquet(str(options.out / name))
    _show(found)


def _show(found: Mapping[str, DataFrame]) -> None:
    stays = found["seen"].agg(F.count("*"), F.count_distinct("user"), F.count_distinct("subject")).head()
    assert stays is not None
    print(f"audit: {stays[0]} subscriptions, of {stays[1]} users, to {stays[2]} subjects", flush=True)
    for row in found["anomalies"].tail(SHOWN_MAX):
        usual = "" if row.usual is None else f", usually {row.usual:.1f}, score {row.score:.1f}"
        print(f"audit: {row.time:%Y-%m-%dT%H:%M:%SZ} {row.what} {row.user}@{row.address} {row.value:.0f}{usual}")
    if "usage" in found:
        unused = found["usage"].where(F.col("n") == 0).orderBy("number")
        print(f"audit: {unused.count()} of {found['usage'].count()} rules were never used", flush=True)
        for row in unused.take(SHOWN_MAX):
            print(f"audit: never used: rule {row.number} {row.who} {row.action} {row.effect} {row.pattern}")


def main(words: Sequence[str] | None = None) -> int:
    """Run once; 0, or 1 with a line that says why not."""
    return run_batch("audit", str(__doc__).partition("\n")[0], arguments, work, words)


if __name__ == "__main__":
    sys.exit(main())
