"""The figures and statistics as MBeans, for tools that speak JMX (docs/operate/figures.md)."""
