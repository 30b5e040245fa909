"""Search with a learned similarity: an index of a gallery, other engines and exports."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
