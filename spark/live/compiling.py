"""Compiles the Java writer in the driver's JVM, and sends it to the executors.

Nothing that was compiled is kept in the project: Spark itself has the compiler, Janino, on every driver.
"""

from __future__ import annotations

import atexit
import pkgutil
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from spark.live.promise import LiveRefused

SOURCE = "LiveWriter.java"
CLASS = "fastpath.live.LiveWriter"
ARCHIVE = "fastpath_live.jar"


def new_writer(context: SparkContext, settings: Mapping[str, Any]) -> Any:
    """Return a writer with these settings, in the driver's JVM; raise LiveRefused where it cannot be made."""
    gateway, java = context._gateway, context._jvm
    assert gateway is not None
    assert java is not None
    arguments = gateway.new_array(java.java.lang.Object, 1)
    arguments[0] = _map(java, settings)
    return loader(context.applicationId).loadClass(CLASS).getConstructors()[0].newInstance(arguments)


@cache
def loader(application: str) -> Any:
    """Return the Java class loader that has the writer, in the application that runs here; raise LiveRefused."""
    del application  # a session that is built after another one has executors of its own
    context = SparkContext._active_spark_context
    assert context is not None
    return load(context)


def load(context: SparkContext) -> Any:
    """Compile, and give the archive to the driver's own class loader and to the executors, also later ones.

    Raises LiveRefused.
    """
    gateway, java = context._gateway, context._jvm
    assert gateway is not None
    assert java is not None
    parent = java.java.lang.Thread.currentThread().getContextClassLoader()
    archive = _archive(_compiled(java, parent, _source()))
    context._jsc.addJar(str(archive))
    addresses = gateway.new_array(java.java.net.URL, 1)
    addresses[0] = java.java.io.File(str(archive)).toURI().toURL()
    return java.java.net.URLClassLoader(addresses, parent)


def _source() -> str:
    try:
        text = pkgutil.get_data("spark.live", SOURCE)
    except OSError:
        text = None
    if text is None:
        raise LiveRefused(f"no Java class: the package spark.live lacks its {SOURCE}, install it again")
    return text.decode()


def _compiled(java: Any, loader: Any, source: str) -> dict[str, bytes]:
    """Return the classes by their names; raise LiveRefused."""
    try:
        compiler = java.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(source)
        entries = compiler.getBytecodes().entrySet().iterator()
    except TypeError:  # py4j takes a class that is not there for a package
        raise LiveRefused(
            "no Java class: the driver's JVM has no compiler, org.codehaus.janino, which comes with PySpark"
        ) from None
    except Py4JJavaError as error:
        fault = " ".join(str(error.java_exception.toString()).split())
        raise LiveRefused(f"no Java class: it does not compile with this Spark: {fault}") from None
    except Py4JError as error:
        raise LiveRefused(f"no Java class: {' '.join(str(error).split())}") from None
    classes = {}
    while entries.hasNext():
        entry = entries.next()
        classes[str(entry.getKey())] = bytes(entry.getValue())
    return classes


def _archive(classes: Mapping[str, bytes]) -> Path:
    """Return a jar with these classes, which is there until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="realtime-live-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with zipfile.ZipFile(folder / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, code in sorted(classes.items()):
            archive.writestr(f"{name.replace('.', '/')}.class", code)
    return folder / ARCHIVE


def _map(java: Any, settings: Mapping[str, Any]) -> Any:
    """Return a java.util.HashMap: texts, and lists of texts, numbers or booleans."""
    found = java.java.util.HashMap()
    for name, value in settings.items():
        if isinstance(value, list):
            items = java.java.util.ArrayList()
            for item in value:
                items.add(item)
            value = items
        elif isinstance(value, Mapping):
            value = _map(java, value)
        found.put(name, value)
    return found
