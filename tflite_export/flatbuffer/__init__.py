"""The TFLite flatbuffer: read it, check it, change it, write it.

`FlatModel` is the model as objects. The other modules serve it: `schema` names
the types and operators, `integrity` checks a file before anything follows its
offsets and numbers, `serialize` writes it.
"""
