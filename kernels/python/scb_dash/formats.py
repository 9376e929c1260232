"""How numbers are written: what scripts give as a format, as the App's {style, currency, digits …}."""

import re

_CURRENCIES = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR", "₩": "KRW", "₽": "RUB",
               "CHF": "CHF", "zł": "PLN", "kr": "SEK"}
SYMBOLS = {code: sign for sign, code in _CURRENCIES.items() if len(sign) == 1}
_CODES = frozenset(_CURRENCIES.values()) | frozenset("AUD CAD NZD NOK DKK CZK HUF BRL MXN CNY ZAR".split())
_STYLES = {"percent": "percent", "bytes": "bytes", "duration": "duration", "number": "number",
           "localized": "number", "plain": "number"}


def parse(given):
    """A format as code writes it ("€%.2f", "{:,.1%}", "percent", "EUR", {…}) as the App's, or None."""
    if given is None:
        return None
    if isinstance(given, dict):
        return {k: given[k] for k in ("style", "currency", "digits", "compact", "unit") if k in given}
    if not isinstance(given, str):
        return None
    word = given.strip()
    if word.lower() in _STYLES:
        return {"style": _STYLES[word.lower()]}
    if word.lower() in ("dollar", "euro", "yen"):
        return {"style": "currency", "currency": {"d": "USD", "e": "EUR", "y": "JPY"}[word[0].lower()]}
    if word.lower() == "compact":
        return {"style": "number", "compact": True}
    if word.upper() in _CODES:
        return {"style": "currency", "currency": word.upper()}
    return _pattern(word)


def _pattern(word):
    found = re.search(r"\{[^{}]*?:?([^{}:]*)\}|%([-+, 0-9.]*[dfgeis]%{0,2})|^([,.0-9]*[df%]?)$", word)
    if not found:
        return None
    spec = next(part for part in found.groups() if part is not None)
    around = word[: found.start()] + word[found.end():]
    fmt = {"style": "number"}
    digits = re.search(r"\.(\d+)", spec)
    if digits:
        fmt["digits"] = min(int(digits.group(1)), 12)
    elif spec[-1:] == "d" or spec in (",", ",d"):
        fmt["digits"] = 0
    if spec.endswith("%") and not spec.endswith("%%") and "%" not in word[: found.start()] and "{" in word:
        fmt["style"] = "percent"
        return fmt
    for sign, code in _CURRENCIES.items():
        if sign in around:
            fmt.update(style="currency", currency=code)
            return fmt
    unit = around.replace("%%", "%").strip()
    if spec.endswith("%%"):
        unit = "%"
    if unit:
        fmt["unit"] = unit[:12]
    return fmt


def number(value, fmt=None):
    """A number as text, for people who read no picture (the App has Intl)."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    fmt = fmt or {}
    style, digits = fmt.get("style"), fmt.get("digits")
    if style == "percent":
        return f"{100 * value:.{1 if digits is None else digits}f}%"
    if style == "bytes":
        for unit in ("B", "KB", "MB", "GB"):
            if abs(value) < 1000:
                break
            value /= 1000
        return f"{value:.3g} {unit}"
    text = _plain(value, digits)
    if style == "currency":
        code = fmt.get("currency", "")
        sign = SYMBOLS.get(code, code + " ")
        text = text.replace("-", "-" + sign, 1) if text.startswith("-") else sign + text
    if fmt.get("unit"):
        text += fmt["unit"] if fmt["unit"] == "%" else " " + fmt["unit"]
    return text


def _plain(value, digits):
    if isinstance(value, bool):
        return "yes" if value else "no"
    size = abs(value)
    if digits is None and size >= 1e6:
        for limit, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
            if size >= limit:
                return f"{value / limit:.4g}{unit}"
    if isinstance(value, int) and digits is None:
        return f"{value:,}"
    if digits is not None:
        return f"{value:,.{digits}f}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
