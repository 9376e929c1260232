"""A sheet as .xlsx (ECMA-376), with the standard library alone: the sandbox has no openpyxl."""

import datetime
import math
import zipfile
from xml.sax.saxutils import escape, quoteattr

ROWS_MAX = 1_048_576
CELL_MAX = 32_767
_TYPES = """<?xml version="1.0" encoding="UTF-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" \
ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" \
ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.\
openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" \
ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/><Override \
PartName="/xl/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml"/>\
</Types>"""
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELS = f"""<?xml version="1.0" encoding="UTF-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" \
Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>"""
_BOOK = f"""<?xml version="1.0" encoding="UTF-8"?>
<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets><sheet name="Data" sheetId="1" r:id="rId1"/></sheets>\
</workbook>"""
_BOOK_RELS = f"""<?xml version="1.0" encoding="UTF-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" \
Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="{_OFFICE}/styles" \
Target="styles.xml"/></Relationships>"""
# Style 1 is a date with its time, 2 a date, 3 the bold head.
_STYLES = f"""<?xml version="1.0" encoding="UTF-8"?>
<styleSheet xmlns="{_MAIN}"><numFmts count="2"><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss"/>\
<numFmt numFmtId="165" formatCode="yyyy\\-mm\\-dd"/></numFmts><fonts count="2"><font><sz val="11"/>\
<name val="Calibri"/></font><font><b/><sz val="11"/><name val="Calibri"/></font></fonts><fills count="2"><fill>\
<patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills><borders \
count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="4"><xf/><xf \
numFmtId="164" applyNumberFormat="1"/><xf numFmtId="165" applyNumberFormat="1"/><xf fontId="1" applyFont="1"/>\
</cellXfs></styleSheet>"""
_EPOCH = datetime.datetime(1899, 12, 30)
_NOT_XML = {i: None for i in range(32) if i not in (9, 10, 13)}
_NOT_XML.update({0xFFFE: None, 0xFFFF: None})


def _text(value, style=""):
    text = value if isinstance(value, str) else str(value)
    text = text.encode("utf-8", "replace").decode("utf-8").translate(_NOT_XML)[:CELL_MAX]
    return f'<c t="inlineStr"{style}><is><t xml:space="preserve">{escape(text)}</t></is></c>'


def _cell(value):
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return "<c/>"
    if isinstance(value, bool):
        return f'<c t="b"><v>{int(value)}</v></c>'
    if isinstance(value, (int, float)):
        if isinstance(value, float) and not math.isfinite(value):
            return "<c/>" if value != value else _text(value)
        return f"<c><v>{value!r}</v></c>" if abs(value) < 1 << 53 else _text(value)
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            return _text(value.isoformat())
        if value.year < 1900:
            return _text(value.isoformat(" "))
        since = value.replace(tzinfo=None) - _EPOCH
        return f'<c s="1"><v>{since.days + since.seconds / 86400 + since.microseconds / 86400e6!r}</v></c>'
    if isinstance(value, datetime.date) and value.year >= 1900:
        return f'<c s="2"><v>{(value - _EPOCH.date()).days}</v></c>'
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        return _cell(item())
    return _text(value)


def write(frame, path):
    """All rows that a sheet can hold. Raises ValueError where there are more."""
    if len(frame) >= ROWS_MAX:
        raise ValueError(f"a sheet holds {ROWS_MAX - 1:,} rows, this table has {len(frame):,}; write csv")
    columns = [frame.iloc[:, i].tolist() for i in range(frame.shape[1])]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as book:
        for name, text in (("[Content_Types].xml", _TYPES), ("_rels/.rels", _RELS), ("xl/workbook.xml", _BOOK),
                           ("xl/_rels/workbook.xml.rels", _BOOK_RELS), ("xl/styles.xml", _STYLES)):
            book.writestr(name, text)
        with book.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as sheet:
            sheet.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<worksheet xmlns={quoteattr(_MAIN)}>'
                        '<sheetData><row>'.encode())
            sheet.write("".join(_text(c, ' s="3"') for c in frame.columns).encode())
            sheet.write(b"</row>")
            for row in zip(*columns):
                sheet.write(f"<row>{''.join(map(_cell, row))}</row>".encode())
            sheet.write(b"</sheetData></worksheet>")
