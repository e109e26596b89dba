"""The figures and statistics as MBeans, for tools that speak JMX (docs/operate/figures.md).

Laws:

* The figures are to be read; nothing can be set or called.
* The Java process ends with the one that has started it.
* A snapshot stands for all that is shown: a bean that it does not name is gone.
"""
