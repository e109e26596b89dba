"""Real daily closes of 20 stocks of the S&P 500, 1990 to 2022, read out of the package skfolio."""

from __future__ import annotations

import csv
import gzip
import importlib.util
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

FILE = Path("datasets", "data", "sp500_dataset.csv.gz")
INSTRUMENTS = {
    "AAPL": ("Apple", "NASDAQ"),
    "AMD": ("Advanced Micro Devices", "NASDAQ"),
    "BAC": ("Bank of America", "NYSE"),
    "BBY": ("Best Buy", "NYSE"),
    "CVX": ("Chevron", "NYSE"),
    "GE": ("GE Aerospace", "NYSE"),
    "HD": ("Home Depot", "NYSE"),
    "JNJ": ("Johnson & Johnson", "NYSE"),
    "JPM": ("JPMorgan Chase", "NYSE"),
    "KO": ("Coca-Cola", "NYSE"),
    "LLY": ("Eli Lilly", "NYSE"),
    "MRK": ("Merck", "NYSE"),
    "MSFT": ("Microsoft", "NASDAQ"),
    "PEP": ("PepsiCo", "NASDAQ"),
    "PFE": ("Pfizer", "NYSE"),
    "PG": ("Procter & Gamble", "NYSE"),
    "RRC": ("Range Resources", "NYSE"),
    "UNH": ("UnitedHealth", "NYSE"),
    "WMT": ("Walmart", "NASDAQ"),
    "XOM": ("ExxonMobil", "NYSE"),
}
"""Symbol: name and exchange, which the file does not have."""


class DataNotFound(RuntimeError):
    """The file of closes is not installed; the text says how to get it."""


@dataclass(frozen=True)
class Closes:
    """The file as columns: `prices[symbol][n]` is the close of `dates[n]`, adjusted for splits and dividends."""

    dates: list[date]
    prices: dict[str, list[float]]

    def since(self, day: int) -> Closes:
        """Return the closes without the days before number `day`."""
        return Closes(self.dates[day:], {symbol: closes[day:] for symbol, closes in self.prices.items()})


def find_file() -> Path:
    """Return where skfolio keeps the closes. The package is located, never imported: its dependencies may be
    missing."""
    spec = importlib.util.find_spec("skfolio")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(folder) / FILE).is_file():
            return Path(folder) / FILE
    where = "the package skfolio is not installed" if spec is None else f"skfolio is installed without {FILE}"
    raise DataNotFound(f"no closes to replay: {where}. Install it with: pip install --no-deps 'skfolio==1.12.2'")


def read(path: Path | None = None) -> Closes:
    """Read the file; raises DataNotFound."""
    with gzip.open(path or find_file(), "rt", encoding="ascii", newline="") as file:
        header, *rows = csv.reader(file)
    columns = list(zip(*rows, strict=True))
    prices = {
        symbol: [float(price) for price in column] for symbol, column in zip(header[1:], columns[1:], strict=True)
    }
    return Closes([date.fromisoformat(day) for day in columns[0]], prices)


def closes(session: SparkSession, data: Closes | None = None) -> DataFrame:
    """Return one row per day and stock: `date`, `symbol`, `close`."""
    data = data or read()
    days, count = len(data.dates), len(data.prices)
    return session.createDataFrame(
        pa.table(
            {
                "date": pa.array(data.dates * count, pa.date32()),
                "symbol": pa.array([symbol for symbol in data.prices for _ in range(days)]),
                "close": pa.array([price for column in data.prices.values() for price in column], pa.float64()),
            }
        )
    )


def histories(session: SparkSession, data: Closes | None = None) -> DataFrame:
    """Return one row per stock: `place` (from 0) of how many `stocks`, `symbol`, `name`, `exchange`, `dates`, `closes`.

    The last two are arrays with its whole history: twenty rows can be sent to every task as they are, and a day is
    found by its number, without a shuffle.
    """
    data = data or read()
    names = [INSTRUMENTS.get(symbol, (symbol, "")) for symbol in data.prices]
    return session.createDataFrame(
        pa.table(
            {
                "place": pa.array(range(len(names)), pa.int64()),
                "stocks": pa.array([len(names)] * len(names), pa.int64()),
                "symbol": pa.array(list(data.prices)),
                "name": pa.array([name for name, _ in names]),
                "exchange": pa.array([exchange for _, exchange in names]),
                "dates": pa.array([data.dates] * len(names), pa.list_(pa.date32())),
                "closes": pa.array(list(data.prices.values()), pa.list_(pa.float64())),
            }
        )
    )
