"""An extension of the API reference: examples in docstrings become code.

Our docstrings have Keras' form, in which `>>>` is not indented. Markdown would
take that for a quotation.
"""

import re

import griffe

PARAGRAPH = re.compile(r"^>>> .*(?:\n.+)*", re.M)


class Doctests(griffe.Extension):
    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = PARAGRAPH.sub(
                r"```pycon\n\g<0>\n```", obj.docstring.value
            )
