"""The web page and its JSON API: search an index, compare before and after, teach it by clicking."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
