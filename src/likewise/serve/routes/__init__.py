"""The routes: search, items, teaching, the page and what an operator asks for."""

from likewise.serve.routes.concepts import concepts
from likewise.serve.routes.gallery import duplicates, exports, map_routes
from likewise.serve.routes.items import items
from likewise.serve.routes.pages import operations, pages
from likewise.serve.routes.search import search
from likewise.serve.routes.teach import teach

__all__ = ["routes"]

# One flat list: FastAPI matches a request to an included router twice.
_ROUTERS = (search, items, map_routes, duplicates, exports, teach, concepts, pages, operations)
routes = [route for router in _ROUTERS for route in router.routes]
